package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// lines shows a report like a diff.
func lines(r store.ApplyReport) []string {
	var out []string
	for _, c := range r.Changes {
		line := c.Operation + " " + c.Object + " " + c.Key
		for _, column := range c.Columns {
			if c.Operation != store.Inserted {
				line += fmt.Sprintf(" %s:%q->%q", column.Column, column.Old, column.New)
			}
		}
		out = append(out, line)
	}
	return out
}

func TestApplyInsertsThenAgrees(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		hours := 2.5
		raw := store.DesiredPipeline{Code: "RAW", Name: "Raw", RefreshType: "FULL", Origin: "file pipelines/RAW.yml",
			DependsOn: []store.DesiredPipelineEdge{{Pipeline: "SALES", Type: store.OnAlways, Match: store.MatchSameDate}},
			Tasks: []store.DesiredTask{{Code: "copy", Type: "ETL", Handler: "SQL", RunCondition: "N", ConditionCount: 1,
				DependsOn: []store.DesiredTaskEdge{{Pipeline: "SALES", Task: "load", Type: store.OnHasData}}}}}
		sales := sales()
		sales.Schedule, sales.Timezone, sales.SLAHours, sales.Description = "0 5 * * *", "UTC", &hours, "text"
		// RAW comes first and waits for tasks of SALES.
		report := apply(t, s, raw, sales)
		if diff := cmp.Diff([]string{
			"INSERT pipeline RAW",
			"INSERT task RAW.copy",
			"INSERT pipeline SALES",
			"INSERT task SALES.extract",
			"INSERT parameter SALES.extract.SQL_ACTION",
			"INSERT parameter SALES.extract.TARGET_OBJECT",
			"INSERT parameter SALES.extract.X_NOTE",
			"INSERT task SALES.load",
			"INSERT pipeline dependency RAW <- SALES on ALWAYS",
			"INSERT task dependency RAW.copy <- SALES.load on HAS_DATA",
			"INSERT task dependency SALES.load <- SALES.extract on SUCCESS",
		}, lines(report)); diff != "" {
			t.Fatal(diff)
		}
		if again := lines(apply(t, s, raw, sales)); again != nil {
			t.Fatal(again)
		}
		g := graph(t, s, "SALES")
		want(t, "sla", *g.Pipeline.SLAHours, 2.5)
		want(t, "text", g.Pipeline.Schedule+g.Pipeline.Timezone+g.Pipeline.Description+g.Pipeline.Origin, "0 5 * * *UTCtextfile pipelines/SALES.yml")
		value, ok := g.Task("extract").Params["X_NOTE"]
		want(t, "empty parameter", ok && value == "", true)
		r := graph(t, s, "RAW")
		want(t, "condition", r.Tasks[0].RunCondition+fmt.Sprint(r.Tasks[0].ConditionCount), "N1")
		want(t, "match", r.DependsOn[0].Match+fmt.Sprint(r.DependsOn[0].ConsumeRepairs), "SAME_DATEfalse")
		all, err := s.Graphs(ctx)
		must(t, err)
		if diff := cmp.Diff([]*store.Graph{r, g}, all); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestApplyUpdatesRetiresAndRestores(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		apply(t, s, sales())
		before := graph(t, s, "SALES")
		p := sales()
		p.Name = "Sales"
		p.Tasks = p.Tasks[:1]
		p.Tasks[0].Params = map[string]string{"SQL_ACTION": "SCD1_MERGE", "TARGET_OBJECT": "staging.orders"}
		report := apply(t, s, p)
		if diff := cmp.Diff([]string{
			`UPDATE pipeline SALES PIPELINE_NAME:"Daily sales"->"Sales"`,
			`UPDATE parameter SALES.extract.SQL_ACTION PARAMETER_VALUE:"APPEND_TABLE"->"SCD1_MERGE"`,
			`RETIRE parameter SALES.extract.X_NOTE`,
			`RETIRE task SALES.load`,
			`RETIRE task dependency SALES.load <- SALES.extract on SUCCESS`,
		}, lines(report)); diff != "" {
			t.Fatal(diff)
		}
		want(t, "tasks", len(graph(t, s, "SALES").Tasks), 1)
		report = apply(t, s, sales())
		if diff := cmp.Diff([]string{
			`UPDATE pipeline SALES PIPELINE_NAME:"Sales"->"Daily sales"`,
			`UPDATE parameter SALES.extract.SQL_ACTION PARAMETER_VALUE:"SCD1_MERGE"->"APPEND_TABLE"`,
			`RESTORE parameter SALES.extract.X_NOTE`,
			`RESTORE task SALES.load`,
			`RESTORE task dependency SALES.load <- SALES.extract on SUCCESS`,
		}, lines(report)); diff != "" {
			t.Fatal(diff)
		}
		// Ids and with them history are kept.
		if diff := cmp.Diff(before, graph(t, s, "SALES")); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestApplyLeavesOthersAlone(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		makeByHand(t, s)
		before := graph(t, s, "DWH")
		apply(t, s, sales())
		if diff := cmp.Diff(before, graph(t, s, "DWH")); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestApplyRollsBack(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		refused := errors.New("no")
		var seen []*store.Graph
		report, err := s.ApplyMetadata(ctx, Tester, []store.DesiredPipeline{sales()}, func(g []*store.Graph) error {
			seen = g
			return refused
		})
		if !errors.Is(err, refused) {
			t.Fatal(err)
		}
		want(t, "changes told", len(report.Changes), 7)
		want(t, "graphs seen", len(seen), 1)
		want(t, "tasks seen", len(seen[0].Tasks), 2)
		report, err = s.ApplyMetadata(ctx, Tester, []store.DesiredPipeline{sales()}, func([]*store.Graph) error { return store.ErrDryRun })
		must(t, err)
		want(t, "changes told", len(report.Changes), 7)
		for _, table := range []string{"CFG_PIPELINES", "CFG_TASKS", "AUD_METADATA_CHANGES"} {
			want(t, table, Value(t, s, "SELECT COUNT(*) FROM {{schema}}."+table), "0")
		}
	})
}

func TestApplyRefusesWhatIsNotThere(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		p := sales()
		p.DependsOn = []store.DesiredPipelineEdge{{Pipeline: "NOWHERE", Type: store.OnSuccess}}
		p.Tasks[1].DependsOn = append(p.Tasks[1].DependsOn, store.DesiredTaskEdge{Task: "extrakt", Type: store.OnSuccess},
			store.DesiredTaskEdge{Pipeline: "RAW", Task: "extract", Type: store.OnSuccess})
		_, err := s.ApplyMetadata(ctx, Tester, []store.DesiredPipeline{p}, anything)
		wantCode(t, err, fault.MetadataInvalid)
		var messages []string
		for _, problem := range fault.As(err).Problems {
			messages = append(messages, problem.Message)
		}
		if diff := cmp.Diff([]string{
			"pipeline SALES depends on pipeline NOWHERE, which does not exist",
			"task SALES.load depends on task SALES.extrakt, which does not exist",
			"task SALES.load depends on task RAW.extract, which does not exist",
		}, messages); diff != "" {
			t.Fatal(diff)
		}
		p = sales()
		p.RefreshType = "SOMETIMES"
		_, err = s.ApplyMetadata(ctx, Tester, []store.DesiredPipeline{p}, anything)
		wantCode(t, err, fault.MetadataInvalid)
		if !strings.Contains(err.Error(), "SALES") {
			t.Fatal(err)
		}
	})
}

func TestChangesNameTheActor(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		apply(t, s, sales())
		Exec(t, s, "UPDATE {{schema}}.CFG_PIPELINES SET PIPELINE_NAME = 'By hand'")
		changes, err := s.Changes(ctx, "SALES", time.Now().Add(-time.Hour))
		must(t, err)
		want(t, "changes", len(changes), 8)
		want(t, "by", changes[0].Actor, Tester)
		want(t, "from", changes[0].Origin, "file pipelines/SALES.yml")
		last := changes[7]
		if last.Actor.Name == Tester.Name || last.Origin != "" {
			t.Fatalf("a change by hand is said to be by %s from %q", last.Actor.Name, last.Origin)
		}
		want(t, "what", last.Table+" "+last.RowKey+" "+last.Operation, "CFG_PIPELINES SALES UPDATE")
		for text, name := range map[string]string{last.Before: "Daily sales", last.After: "By hand"} {
			var row map[string]any
			must(t, json.Unmarshal([]byte(text), &row))
			want(t, "name", row["pipeline_name"].(string), name)
			created := row["create_date"].(string)
			if !strings.HasSuffix(created, "Z") && !strings.HasSuffix(created, "+00:00") {
				t.Fatalf("%s is not UTC", created)
			}
		}
		later, err := s.Changes(ctx, "", time.Now().Add(time.Hour))
		must(t, err)
		want(t, "later changes", len(later), 0)
		other, err := s.Changes(ctx, "RAW", time.Now().Add(-time.Hour))
		must(t, err)
		want(t, "changes of another pipeline", len(other), 0)
	})
}

func TestUnknownPipelineIsGuessed(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		apply(t, s, sales())
		_, err := s.Graph(ctx, "SALE")
		wantCode(t, err, fault.PipelineNotFound)
		if !strings.Contains(fault.As(err).Hint, "SALES") {
			t.Fatal(fault.As(err).Hint)
		}
	})
}

func TestPausedPipeline(t *testing.T) {
	Each(t, func(t *testing.T, e *Engine) {
		s := e.Migrated().Store()
		apply(t, s, sales())
		Exec(t, s, "INSERT INTO {{schema}}.AUD_PIPELINE_PAUSES (PIPELINE_ID, PAUSED_BY, PAUSED_BY_KIND, REASON) VALUES (1, 'ann', 'HUMAN', 'move')")
		want(t, "graph", graph(t, s, "SALES").PausedBy+graph(t, s, "SALES").PauseWhy, "annmove")
		list, err := s.ListPipelines(ctx)
		must(t, err)
		want(t, "list", list[0].PausedBy+list[0].PauseWhy, "annmove")
		want(t, "no run", list[0].LastRun == nil, true)
		Exec(t, s, "UPDATE {{schema}}.AUD_PIPELINE_PAUSES SET RESUMED_AT = PAUSED_AT, RESUMED_BY = 'ann'")
		want(t, "resumed", graph(t, s, "SALES").PausedBy, "")
	})
}

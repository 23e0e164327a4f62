package engine

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// exec changes the Engine DB by hand.
func (b *bench) exec(statement string, args ...any) {
	b.t.Helper()
	if _, err := b.store.Backend().Writer.Exec(statement, args...); err != nil {
		b.t.Fatalf("%s: %v", statement, err)
	}
}

// age makes all runs that have ended so far, and what is recorded of them, a year old.
func (b *bench) age() {
	b.t.Helper()
	b.exec("INSERT INTO ENGINE_SESSION (SESSION_ID, ACTOR, ACTOR_KIND, PURPOSE) VALUES (1, 'x', 'SYSTEM', 'retention')")
	for column, table := range map[string]string{"END_DATE": store.TableRuns, "DECIDED_AT": store.TableDecisions, "CONSUMED_AT": store.TableConsumption,
		"FIRST_CHECK_AT": store.TableGateWaits, "RESUMED_AT": store.TablePauses} {
		b.exec("UPDATE " + table + " SET " + column + " = '2025-01-02T00:00:00.000000Z' WHERE " + column + " IS NOT NULL")
	}
	b.exec("DELETE FROM ENGINE_SESSION")
}

func (b *bench) purge(req PurgeRequest) *PurgeDocument {
	b.t.Helper()
	if req.OlderThan == "" {
		req.OlderThan = "90d"
	}
	doc, err := b.engine().Purge(context.Background(), req)
	if err != nil {
		b.t.Fatal(err)
	}
	return doc
}

// files are the paths below a folder, folders with a slash behind.
func files(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if d.IsDir() {
			name += "/"
		}
		all = append(all, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func TestPurgeRemovesRunsAndTheirLogs(t *testing.T) {
	b := newBench(t)
	b.apply("a", "b: a")
	b.script.on("b", fails)
	for range 2 {
		if _, err := b.run(RunRequest{}); !fault.Has(err, fault.RunFailed) {
			t.Fatal(err)
		}
	}
	b.script.on("b", succeed(1))
	newest := b.mustRun(RunRequest{})
	b.age()

	dry := b.purge(PurgeRequest{DryRun: true})
	if dry.Runs != 2 || dry.Rows != 2+4+4 || dry.Files != 4 || dry.Bytes == 0 || dry.Kept != (KeptRuns{Newest: 1}) {
		t.Fatalf("%+v", dry)
	}
	if n := b.value("SELECT COUNT(*) FROM AUD_PIPELINES_RUN_LOG"); n != "3" {
		t.Fatalf("the dry run left %s runs", n)
	}
	if n := b.value("SELECT COUNT(*) FROM AUD_ACTIONS WHERE COMMAND = 'purge'"); n != "0" {
		t.Fatal("the dry run is recorded")
	}
	doc := b.purge(PurgeRequest{})
	dry.DryRun, dry.Before = false, doc.Before
	if diff := cmp.Diff(dry, doc); diff != "" {
		t.Fatalf("- dry run, + purge: %s", diff)
	}
	run := "SALES/run-" + strconv.FormatInt(newest.PipelineRunID, 10) + "/"
	if got := files(t, filepath.Join(b.dir, "logs")); got != "SALES/ "+run+" "+run+"a.attempt-1.log "+run+"b.attempt-1.log" {
		t.Fatal(got)
	}
	again := b.purge(PurgeRequest{})
	if again.Rows != 0 || again.Files != 0 || again.Kept.Newest != 1 {
		t.Fatalf("%+v", again)
	}

	audit, err := b.engine().Audit(context.Background(), "", "1h")
	if err != nil {
		t.Fatal(err)
	}
	var results []string
	for _, e := range audit.Entries {
		if e.Action == "purge" {
			results = append(results, *e.Outcome+" "+string(e.Arguments)+" "+strings.SplitN(string(e.Result), `"bytes"`, 2)[1])
		}
	}
	want := []string{`DONE {"older_than":"90d"} :` + strconv.FormatInt(doc.Bytes, 10) + `,"files":4,"rows":10,"runs":2}`, `DONE {"older_than":"90d"} :0,"files":0,"rows":0,"runs":0}`}
	for i := range results {
		results[i] = strings.Join(strings.Fields(strings.ReplaceAll(results[i], `"before":`+quotedTime(doc.Before), "")), " ")
	}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Fatal(diff)
	}
}

func quotedTime(at Time) string { text, _ := at.MarshalJSON(); return string(text) + "," }

// TestPurgeStaysInTheLogFolder: no link leads out of it, and what lies elsewhere is left alone.
func TestPurgeStaysInTheLogFolder(t *testing.T) {
	b := newBench(t)
	b.apply("a")
	var ids []string
	for range 5 {
		ids = append(ids, strconv.FormatInt(b.mustRun(RunRequest{}).PipelineRunID, 10))
	}
	b.age()
	logs, outside := filepath.Join(b.dir, "logs"), filepath.Join(b.dir, "outside")
	folder := func(i int) string { return filepath.Join(logs, "SALES", "run-"+ids[i]) }
	move := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, at string) {
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	move(folder(0), filepath.Join(outside, "run")) // a folder that is a link out
	link(filepath.Join(outside, "run"), folder(0))
	move(filepath.Join(folder(1), "a.attempt-1.log"), filepath.Join(outside, "file")) // a file that is a link out
	link(filepath.Join(outside, "file"), filepath.Join(folder(1), "a.attempt-1.log"))
	b.write("logs/SALES/run-"+ids[2]+"/mine.txt", "x")
	if err := os.RemoveAll(folder(3)); err != nil {
		t.Fatal(err)
	}

	doc := b.purge(PurgeRequest{})
	if doc.Runs != 4 || doc.LogsElsewhere != 1 || doc.Files != 2 {
		t.Fatalf("%+v", doc)
	}
	if got := files(t, outside); got != "file run/ run/a.attempt-1.log" {
		t.Fatal(got)
	}
	got := files(t, logs)
	want := "SALES/ SALES/run-" + ids[0] + " SALES/run-" + ids[2] + "/ SALES/run-" + ids[2] + "/mine.txt SALES/run-" + ids[4] + "/ SALES/run-" + ids[4] + "/a.attempt-1.log"
	if got != want {
		t.Fatalf("%s\n%s", got, want)
	}

	b.mustRun(RunRequest{})
	b.age()
	moved := filepath.Join(b.dir, "moved")
	move(logs, moved)
	if doc := b.purge(PurgeRequest{}); doc.Runs != 1 || doc.Files != 0 {
		t.Fatalf("without its folder: %+v", doc)
	}
}

// TestPurgeInBatches: no transaction deletes more rows than a batch has, except for a run that has more.
func TestPurgeInBatches(t *testing.T) {
	defer func(n int64) { purgeBatch = n }(purgeBatch)
	purgeBatch = 12
	b := newBench(t)
	b.apply("a", "b", "c") // a run has 1 + 3 + 3 rows
	b.applyTo("WIDE", "", "a", "b", "c", "d", "e", "f", "g", "h")
	for range 6 {
		b.mustRun(RunRequest{})
	}
	for range 3 {
		b.mustRun(RunRequest{Pipeline: "WIDE"})
	}
	b.apply()
	for range 6 {
		b.mustRun(RunRequest{}) // a run without tasks has 1 row
	}
	b.age()
	b.exec("CREATE TABLE TALLY (BATCH INTEGER NOT NULL)")
	b.exec("CREATE TABLE BATCHES (N INTEGER PRIMARY KEY)")
	b.exec("CREATE TRIGGER TR_BATCH AFTER INSERT ON ENGINE_SESSION BEGIN INSERT INTO BATCHES (N) VALUES (NULL); END")
	for _, table := range store.PurgeTables {
		b.exec("CREATE TRIGGER TR_TALLY_" + table + " AFTER DELETE ON " + table + " BEGIN INSERT INTO TALLY SELECT MAX(N) FROM BATCHES; END")
	}
	doc := b.purge(PurgeRequest{})
	got := b.value("SELECT group_concat(N, ' ') FROM (SELECT COUNT(*) AS N FROM TALLY GROUP BY BATCH ORDER BY BATCH)")
	if doc.Runs != 6+5+2 || got != "7 7 7 7 7 12 17 17" {
		t.Fatalf("%d runs in batches of %s rows", doc.Runs, got)
	}
}

func TestPurgeIsInterruptedBetweenBatches(t *testing.T) {
	defer func(n int64) { purgeBatch = n }(purgeBatch)
	purgeBatch = 1
	b := newBench(t)
	b.apply("a")
	for range 5 {
		b.mustRun(RunRequest{})
	}
	b.age()
	ctx := context.Background()
	p := &purge{e: b.engine(), before: time.Now(), rows: store.Purged{}, doc: &PurgeDocument{}, logs: &logFolder{}}
	var seen []store.OldRun
	for id := int64(0); len(seen) == 0; id++ {
		var err error
		if seen, err = b.store.OldRuns(ctx, id, p.before, 0, 1); err != nil {
			t.Fatal(err)
		}
		if len(seen) > 0 {
			p.batch = []int64{seen[0].ID}
			if err := p.flush(ctx, id); err != nil {
				t.Fatal(err)
			}
			close(b.stop)
			wantCode(t, p.runs(ctx, id), fault.Interrupted)
		}
	}
	if n := b.value("SELECT COUNT(*) FROM AUD_PIPELINES_RUN_LOG"); n != "4" {
		t.Fatalf("%s runs", n)
	}
	_, err := b.engine().Purge(ctx, PurgeRequest{OlderThan: "1d"})
	wantCode(t, err, fault.Interrupted, "the same command goes on")
	if got := b.value("SELECT OUTCOME || ' ' || EXIT_CODE FROM AUD_ACTIONS WHERE COMMAND = 'purge'"); got != "INTERRUPTED 130" {
		t.Fatal(got)
	}
	b.stop = make(chan struct{})
	if doc := b.purge(PurgeRequest{}); doc.Runs != 3 {
		t.Fatalf("%+v", doc)
	}
}

// TestPurgeKeepsABackfillThatGoesOn, and whatever else goes on.
func TestPurgeKeepsABackfillThatGoesOn(t *testing.T) {
	b := newBench(t)
	b.apply("a")
	day := RunRequest{Pipeline: "SALES", Backfill: "2026-09-01:2026-09-05", Reason: why}
	if _, err := b.engine().Backfill(context.Background(), day); err != nil { // complete, and not the newest later
		t.Fatal(err)
	}
	b.script.on("a", func(ctx context.Context, a *handlers.Attempt) (handlers.Result, error) {
		if a.RunDate.Day() == 3 {
			return fails(ctx, a)
		}
		return wrote(1), nil
	})
	day.Backfill = "2026-08-01:2026-08-04"
	stopped, err := b.engine().Backfill(context.Background(), day)
	wantCode(t, err, fault.RunFailed)
	b.script.on("a", succeed(1))
	unfinished := b.mustRun(RunRequest{})
	b.exec("UPDATE AUD_PIPELINES_RUN_LOG SET STATUS = 'IN_PROGRESS', END_DATE = NULL WHERE PIPELINE_RUN_ID = ?", unfinished.PipelineRunID)
	b.exec("UPDATE AUD_TASK_RUN_LOG SET STATUS = 'PENDING', END_DATE = NULL WHERE PIPELINE_RUN_ID = ?", unfinished.PipelineRunID)
	b.age()

	doc := b.purge(PurgeRequest{})
	if doc.Runs != 5 || doc.Kept != (KeptRuns{Backfill: 3}) {
		t.Fatalf("%+v", doc)
	}
	if resumed := b.mustRun(RunRequest{}); resumed.PipelineRunID != unfinished.PipelineRunID {
		t.Fatalf("run %d is not the unfinished one", resumed.PipelineRunID)
	}
	done, err := b.engine().Backfill(context.Background(), day)
	if err != nil {
		t.Fatal(err)
	}
	for i, run := range stopped.Runs {
		if done.Runs[i].PipelineRunID != run.PipelineRunID {
			t.Errorf("day %s has a new run", run.RunDate)
		}
	}
}

// TestPurgeOfOnePipeline leaves those of others, and needs no newest run of it to be the newest of all.
func TestPurgeOfOnePipeline(t *testing.T) {
	b := newBench(t)
	b.apply("a")
	b.applyTo("OTHER", "depends_on:\n  - { pipeline: SALES, on: SUCCESS }\n", "a")
	for range 3 {
		b.mustRun(RunRequest{})
		b.mustRun(RunRequest{Pipeline: "OTHER"})
	}
	b.exec("INSERT INTO AUD_ACTIONS (STARTED_AT, ENDED_AT, ACTOR, ACTOR_KIND, HOST, COMMAND, ARGUMENTS, OUTCOME, EXIT_CODE) " +
		"VALUES ('2025-01-01', '2025-01-01', 'x', 'HUMAN', 'h', 'apply', '{}', 'DONE', 0)")
	b.age()
	if doc := b.purge(PurgeRequest{Pipeline: "OTHER"}); doc.Runs != 2 || *doc.Pipeline != "OTHER" || doc.Rows != 2*(1+1+1+1) {
		t.Fatalf("%+v", doc)
	}
	dry := b.purge(PurgeRequest{DryRun: true})
	doc := b.purge(PurgeRequest{})
	// Two runs of SALES, whose consumption can go with them, and the command.
	if doc.Runs != 2 || doc.Rows != 2*(1+1+1)+2+1 || dry.Rows != doc.Rows {
		t.Fatalf("%+v, foreseen %+v", doc, dry)
	}
	_, err := b.run(RunRequest{Pipeline: "OTHER"})
	wantCode(t, err, fault.NotReady, "which was used")
	_, err = b.engine().Purge(context.Background(), PurgeRequest{OlderThan: "90d", Pipeline: "NONE"})
	wantCode(t, err, fault.PipelineNotFound)
}

func TestAges(t *testing.T) {
	for text, hours := range map[string]float64{"1d": 24, "24h": 24, "90d": 90 * 24, "12w": 12 * 7 * 24, "36500d": 36500 * 24} {
		if age, err := parseAge(text); err != nil || age.Hours() != hours {
			t.Errorf("%s: %v, %v", text, age, err)
		}
	}
	for _, text := range []string{"", "0d", "0", "23h", "90", "d", "-1d", "1.5d", "1d12h", "1y", "1 d", "90D", "36501d", "99999w", "999999d"} {
		if _, err := parseAge(text); !fault.Has(err, fault.Usage) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

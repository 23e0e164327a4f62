package sqlscan

import (
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/internal/fault"
)

var all = map[Token]string{
	PipelineID: "3", PipelineRunID: "97", TaskRunID: "412", RunDate: "DATE '2026-09-01'",
	PipelineRunIDFilter: "pipeline_run_id = 97",
}

func pick(names string) map[Token]string {
	m := map[Token]string{}
	for _, n := range strings.Fields(names) {
		m[Token(n)] = all[Token(n)]
	}
	return m
}

func TestSubstitute(t *testing.T) {
	for _, c := range []struct {
		syn            Syntax
		text, on, want string
	}{
		{PostgreSQL, "SELECT 1", "", "SELECT 1"},
		{PostgreSQL, "SELECT a, $$pipeline_run_id AS loaded_in_run\r\nFROM s.t\r\nWHERE $$pipeline_run_id_filter -- $$run_date\r\n;",
			"pipeline_run_id pipeline_run_id_filter",
			"SELECT a, 97 AS loaded_in_run\r\nFROM s.t\r\nWHERE pipeline_run_id = 97 -- $$run_date\r\n"},
		{PostgreSQL, "SELECT $$pipeline_id,$$task_run_id,($$run_date)", "pipeline_id task_run_id run_date",
			"SELECT 3,412,(DATE '2026-09-01')"},
		{PostgreSQL, "SELECT 1 WHERE o.$$pipeline_run_id_filter AND $$run_date=d", "pipeline_run_id_filter run_date",
			"SELECT 1 WHERE o.pipeline_run_id = 97 AND DATE '2026-09-01'=d"},
		{PostgreSQL, "SELECT $$run_date::text, -$$pipeline_id", "run_date pipeline_id",
			"SELECT DATE '2026-09-01'::text, -3"},
		{PostgreSQL, "SELECT $$run_date", "run_date", "SELECT DATE '2026-09-01'"},
		{PostgreSQL, "SELECT $$run_date;", "run_date", "SELECT DATE '2026-09-01'"},
		{PostgreSQL, "SELECT '$$run_date', \"$$run_date\", E'\\'$$run_date', U&\"$$run_date\" /* $$run_date /* */ $$x */", "",
			"SELECT '$$run_date', \"$$run_date\", E'\\'$$run_date', U&\"$$run_date\" /* $$run_date /* */ $$x */"},
		{PostgreSQL, "SELECT $$run_date$$, $x$ $$run_date $x$, $$ $run_date $$", "", "SELECT $$run_date$$, $x$ $$run_date $x$, $$ $run_date $$"},
		{PostgreSQL, "SELECT $$ run_date $$run_date", "", "SELECT $$ run_date $$run_date"},
		{PostgreSQL, "SELECT $$1 run_date $$run_date", "", "SELECT $$1 run_date $$run_date"},
		{PostgreSQL, "SELECT $$$$run_date", "", "SELECT $$$$run_date"},
		{PostgreSQL, "SELECT $$run_dates are $$x", "", "SELECT $$run_dates are $$x"},
		{PostgreSQL, "SELECT $$text$$ run_date", "", "SELECT $$text$$ run_date"},
		{PostgreSQL, "SELECT $$run_date$1$$", "", "SELECT $$run_date$1$$"},
		{PostgreSQL, "SELECT $a$x$a$, $$run_date, $b$y$b$", "run_date", "SELECT $a$x$a$, DATE '2026-09-01', $b$y$b$"},
		{PostgreSQL, "SELECT 'a'$$run_date", "run_date", "SELECT 'a'DATE '2026-09-01'"},
		{PostgreSQL, "SELECT a$$b, $$run_date", "run_date", "SELECT a$$b, DATE '2026-09-01'"},
		{DuckDB, "SELECT $$run_date AS \"größe\"", "run_date", "SELECT DATE '2026-09-01' AS \"größe\""},
		{Snowflake, "SELECT $$run_date$$, $$run_date", "run_date", "SELECT $$run_date$$, DATE '2026-09-01'"},
		{Trino, "SELECT '$$x', $$run_date", "run_date", "SELECT '$$x', DATE '2026-09-01'"},
		{Databricks, "SELECT `$$x`, \"$$x\", 'it\\'s $$x', $$run_date", "run_date",
			"SELECT `$$x`, \"$$x\", 'it\\'s $$x', DATE '2026-09-01'"},
	} {
		s, err := Parse(c.text, c.syn)
		if err != nil {
			t.Errorf("%s: %q: %v", c.syn.Warehouse, c.text, err)
			continue
		}
		got, err := s.Substitute(pick(c.on))
		if err != nil || got != c.want {
			t.Errorf("%s: %q gives %q, %v; want %q", c.syn.Warehouse, c.text, got, err, c.want)
		}
	}
}

func TestTokenProblems(t *testing.T) {
	for _, c := range []struct {
		syn      Syntax
		text, on string
		want     []string // one message each
	}{
		{PostgreSQL, "SELECT $$run_date", "", []string{"$$run_date is used but RUN_DATE_SUBSTITUTION is not true (1:8)"}},
		{PostgreSQL, "SELECT 1", "run_date", []string{"RUN_DATE_SUBSTITUTION is true but the SELECT has no $$run_date"}},
		{PostgreSQL, "SELECT '$$run_date' -- $$run_date", "run_date", []string{"RUN_DATE_SUBSTITUTION is true"}},
		{PostgreSQL, "SELECT $$run_date$$", "run_date", []string{"RUN_DATE_SUBSTITUTION is true"}},
		{PostgreSQL, "SELECT $$pipeline_run_id", "pipeline_run_id_filter", []string{
			"$$pipeline_run_id is used but PIPELINE_RUN_ID_SUBSTITUTION is not true",
			"PIPELINE_RUN_ID_FILTER is true but the SELECT has no $$pipeline_run_id_filter"}},
		{PostgreSQL, "SELECT $$foo", "", []string{"$$foo is not a token (1:8)"}},
		{PostgreSQL, "SELECT $$", "", []string{"$$ is not a token"}},
		{PostgreSQL, "SELECT\n  $$RUN_DATE", "", []string{"$$RUN_DATE is not a token (2:3)"}},
		{PostgreSQL, "SELECT $$run_dates", "run_date", []string{"$$run_dates is not a token", "RUN_DATE_SUBSTITUTION is true"}},
		{PostgreSQL, "SELECT $$run_date$1", "", []string{"$$run_date$1 is not a token"}},
		{PostgreSQL, "SELECT $$run_date is the date$$", "run_date", []string{"$$ is part of the name date$$"}},
		{PostgreSQL, "SELECT $$run_date is a $$", "run_date", []string{"$$ is not a token"}},
		{PostgreSQL, "SELECT $$run_dat, $$run_date", "run_date", []string{"$$run_dat, $$run_date can be read as", "RUN_DATE_SUBSTITUTION is true"}},
		{PostgreSQL, "SELECT 1 WHERE d >= $$RUN_DATE AND d < $$RUN_DATE", "", []string{"can be read as"}},
		{PostgreSQL, "SELECT 1 WHERE d >= $$run_dat AND d < $$run_dat", "", []string{"can be read as"}},
		{PostgreSQL, "SELECT $$text$$run_date", "", []string{"$$text$$run_date can be read as"}},
		{PostgreSQL, "SELECT $$run_date$$pipeline_id", "", []string{"can be read as"}},
		{PostgreSQL, "SELECT 1 FROM s.stage_$$pipeline_run_id", "", []string{"$$ is part of the name stage_$$pipeline_run_id"}},
		{PostgreSQL, "SELECT 1$$pipeline_id", "pipeline_id", []string{"$$pipeline_id touches"}},
		{PostgreSQL, "SELECT $$run_date'x'", "run_date", []string{"$$run_date touches"}},
		{PostgreSQL, "SELECT $$pipeline_id.into z", "pipeline_id", []string{"$$pipeline_id touches"}},
		{Trino, "SELECT a$$run_date", "run_date", []string{"$$run_date touches"}},
		{Trino, "SELECT $$run_date$$", "", []string{"$$run_date$$ is not a token"}},
		{Databricks, "SELECT $$x$$, $$pipline_id", "", []string{"$$x$$ is not a token", "$$pipline_id is not a token"}},
		{Snowflake, "SELECT $$x", "", []string{"$$x is not a token"}},
	} {
		s, err := Parse(c.text, c.syn)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		out, err := s.Substitute(pick(c.on))
		if err == nil || !fault.Has(err, fault.TokenInvalid) {
			t.Errorf("%q gives %q, %v", c.text, out, err)
			continue
		}
		e := fault.As(err)
		if len(e.Problems) != len(c.want) {
			t.Errorf("%q: %d problems: %v", c.text, len(e.Problems), err)
			continue
		}
		for i, p := range e.Problems {
			if !strings.Contains(p.Message, c.want[i]) || !strings.Contains(e.Message, c.want[i]) || p.Hint == "" {
				t.Errorf("%q: problem %d is %+v, want %q", c.text, i, p, c.want[i])
			}
		}
	}
}

func TestNearestToken(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT $$RUN_DATE":            "did you mean $$run_date?",
		"SELECT $$pipline_id":          "did you mean $$pipeline_id?",
		"SELECT $$Pipeline_Run_Filter": "the tokens are $$pipeline_id, $$pipeline_run_id, $$task_run_id, $$pipeline_run_id_filter, $$run_date",
		"SELECT $$run_date$$":          "Trino has no $$…$$ strings: write $$run_date for the token",
	} {
		s, err := Parse(text, Trino)
		if err != nil {
			t.Fatal(err)
		}
		if e := fault.As(s.CheckTokens(nil)); e.Hint != want {
			t.Errorf("%q: hint %q, want %q", text, e.Hint, want)
		}
	}
}

func TestSwitches(t *testing.T) {
	want := map[Token]string{
		PipelineID: "PIPELINE_ID_SUBSTITUTION", PipelineRunID: "PIPELINE_RUN_ID_SUBSTITUTION",
		TaskRunID: "TASK_RUN_ID_SUBSTITUTION", PipelineRunIDFilter: "PIPELINE_RUN_ID_FILTER", RunDate: "RUN_DATE_SUBSTITUTION",
	}
	if len(Tokens()) != len(want) {
		t.Fatal(Tokens())
	}
	for _, token := range Tokens() {
		if token.Switch() != want[token] {
			t.Errorf("%s: %s", token, token.Switch())
		}
	}
}

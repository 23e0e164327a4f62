package sqlscan

import (
	"testing"

	"github.com/etl-craft/etl-craft/internal/fault"
)

func TestMisread(t *testing.T) {
	for text, want := range map[string]int{
		"SELECT 1 FROM t WHERE pipeline_run_id = $$pipeline_id":                                        1,
		"SELECT 1 FROM t AS x WHERE x.pipeline_run_id >= $$pipeline_id AND a = 1":                      1,
		`SELECT 1 FROM t WHERE $$pipeline_id = t."pipeline_run_id"`:                                    1,
		"SELECT 1 FROM t WHERE $$pipeline_id <> s.t.Pipeline_Run_Id OR pipeline_run_id<$$pipeline_id ": 2,
		"SELECT 1 FROM t WHERE pipeline_id = $$pipeline_id AND pipeline_run_id = $$pipeline_run_id":    0,
		"SELECT $$pipeline_id, pipeline_run_id FROM t":                                                 0,
		"SELECT $$pipeline_id AS pipeline_run_id FROM t":                                               0,
		"SELECT 1 FROM t WHERE pipeline_run_id = '$$pipeline_id' -- pipeline_run_id = $$pipeline_id":   0,
		"SELECT $$pipeline_id": 0,
	} {
		s, err := Parse(text, DuckDB)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		problems := s.Misread()
		if len(problems) != want {
			t.Errorf("%s: %v, want %d", text, problems, want)
		}
		for _, p := range problems {
			if p.Level != "WARN" || p.Line != 1 || p.Column == 0 {
				t.Errorf("%s: %+v", text, p)
			}
		}
	}
	s, err := Parse("SELECT 1 FROM t WHERE $$pipeline_id_filter", DuckDB)
	if err != nil {
		t.Fatal(err)
	}
	if hint := fault.As(s.CheckTokens(nil)).Hint; hint != "it is $$pipeline_run_id_filter now" {
		t.Error(hint)
	}
}

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
		"SELECT 1 FROM t WHERE pipeline_run_id IN ($$pipeline_id)":                                      1,
		"SELECT 1 FROM t WHERE t.pipeline_run_id NOT IN (0, $$pipeline_id, 1)":                          1,
		"SELECT 1 FROM t WHERE pipeline_run_id BETWEEN $$pipeline_id AND 9":                             1,
		"SELECT 1 FROM t WHERE pipeline_run_id NOT BETWEEN f(1, 2) AND $$pipeline_id AND a = 1":         1,
		"SELECT 1 FROM t WHERE pipeline_run_id = CAST($$pipeline_id AS BIGINT)":                         1,
		"SELECT 1 FROM t WHERE pipeline_run_id = ($$pipeline_id::DECIMAL(9, 0))":                        1,
		"SELECT 1 FROM t WHERE CAST($$pipeline_id AS VARCHAR) = CAST(t.pipeline_run_id AS VARCHAR)":     1,
		"SELECT 1 FROM t WHERE CAST(t.pipeline_run_id AS VARCHAR) = CAST($$pipeline_id AS VARCHAR)":     1,
		"SELECT 1 FROM t WHERE pipeline_run_id::VARCHAR = $$pipeline_id::VARCHAR":                       1,
		"SELECT 1 FROM t WHERE pipeline_run_id IS NOT DISTINCT FROM $$pipeline_id":                      1,
		"SELECT 1 FROM t WHERE pipeline_id IN ($$pipeline_id) AND pipeline_run_id IN (1, 2)":            0,
		"SELECT 1 FROM t WHERE pipeline_run_id BETWEEN 1 AND 2 AND $$pipeline_id = pipeline_id":         0,
		"SELECT 1 FROM t WHERE pipeline_run_id = f($$pipeline_id)":                                      0,
		"SELECT 1 FROM t WHERE pipeline_run_id IN (SELECT r FROM runs WHERE pipeline_id=$$pipeline_id)": 0,
		"SELECT 1 FROM t WHERE pipeline_run_id IN (SELECT $$pipeline_id)":                               0,
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

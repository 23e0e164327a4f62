package sql

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGoldenPlansParse lets sqlglot parse the golden plans of warehouses that no server is at hand for, by the rules of
// check.py. It finds slips and what belongs to another dialect; it does not prove that the warehouse takes a statement.
func TestGoldenPlansParse(t *testing.T) {
	python := os.Getenv("ETL_CRAFT_TEST_SQLGLOT")
	switch {
	case python == "" && os.Getenv("CI") == "true":
		t.Fatal("ETL_CRAFT_TEST_SQLGLOT names no Python with sqlglot")
	case python == "":
		t.Skip("ETL_CRAFT_TEST_SQLGLOT names no Python with sqlglot")
	}
	fill := strings.NewReplacer("<pipeline_run_id>", "97", "<task_run_id>", "412", "<token>", "9f3a", "<now>", "CURRENT_TIMESTAMP")
	for _, dialect := range []string{"snowflake", "databricks", "trino"} {
		t.Run(dialect, func(t *testing.T) {
			plans, err := filepath.Glob(filepath.Join("testdata", "plans", "*", "*."+dialect+".sql"))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			arguments := []string{filepath.Join("..", "..", "internal", "testservers", "sqlglot", "check.py"), dialect}
			for _, path := range plans {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(string(text), "-- ") || !strings.Contains(string(text), ";\n") { // a refusal, or a plan of nothing
					continue
				}
				copied := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(path, filepath.Join("testdata", "plans")+string(filepath.Separator)), string(filepath.Separator), "_"))
				if err := os.WriteFile(copied, []byte(fill.Replace(string(text))), 0o600); err != nil {
					t.Fatal(err)
				}
				arguments = append(arguments, copied)
			}
			if len(arguments) == 2 {
				t.Fatal("it has no golden plans")
			}
			if out, err := exec.CommandContext(t.Context(), python, arguments...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, strings.ReplaceAll(string(out), dir+string(filepath.Separator), ""))
			}
		})
	}
}

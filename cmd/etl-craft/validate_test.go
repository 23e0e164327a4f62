package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// TestValidate checks the smallest project that has a fault, one for each file of testdata/validate, and compares text and
// JSON with those in the file; a file named pipeline holds what --pipeline is. All of them together, as one project, have all
// their problems.
func TestValidate(t *testing.T) {
	files, err := filepath.Glob("testdata/validate/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	all := t.TempDir()
	seen := map[fault.Code]bool{}
	want := 0
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			var kept []txtar.File
			pipeline := ""
			for _, f := range archive.Files {
				if f.Name == "want.txt" || f.Name == "want.json" {
					continue
				}
				kept = append(kept, f)
				if f.Name == "pipeline" {
					pipeline = strings.TrimSpace(string(f.Data))
					continue
				}
				put(t, dir, f.Name, string(f.Data))
				// In the project of all of them, each has names of its own.
				rename := strings.NewReplacer("ONE", "ONE_"+name, "TWO", "TWO_"+name, " t.", " t_"+name+".")
				put(t, all, filepath.Join(filepath.Dir(f.Name), rename.Replace(strings.TrimSuffix(filepath.Base(f.Name), filepath.Ext(f.Name)))+filepath.Ext(f.Name)), rename.Replace(string(f.Data)))
			}
			doc := validated(t, dir, pipeline)
			for _, p := range doc.Problems {
				seen[p.Code] = true
			}
			want += len(validated(t, dir, "").Problems)
			shown, err := json.MarshalIndent(doc, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got := append(kept, txtar.File{Name: "want.txt", Data: []byte(problemLines(doc.Problems, &screen{}))},
				txtar.File{Name: "want.json", Data: append(shown, '\n')})
			if *update {
				if err := os.WriteFile(path, txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: got}), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(&txtar.Archive{Files: archive.Files})), string(txtar.Format(&txtar.Archive{Files: got}))); diff != "" {
				t.Errorf("- expected, + found:\n%s", diff)
			}
			if len(doc.Problems) == 0 {
				t.Error("the project has no problem")
			}
		})
	}
	if together := validated(t, all, "").Problems; len(together) != want || want < 20 {
		t.Errorf("all together have %d problems, one by one %d:\n%s", len(together), want, problemLines(together, &screen{}))
	}
	for _, code := range []fault.Code{fault.ScheduleInvalid, fault.HandlerUnknown, fault.ParameterUnknown, fault.ParameterInvalid,
		fault.ParameterMissing, fault.ParameterUnused, fault.GraphCycle, fault.DependencyInvalid, fault.ConditionUnmet, fault.HasDataNoRows,
		fault.WritersDisagree, fault.SourceFile, fault.SelectInvalid, fault.TokenInvalid, fault.ColumnReserved, fault.ColumnMissing,
		fault.AuditUndecidable, fault.DropRefused, fault.NotificationInvalid, fault.ReadUnordered, fault.WritesUnordered, fault.FileInvalid} {
		if !seen[code] {
			t.Errorf("no project has the fault %s", code)
		}
	}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), fs.FileMode(0o600)); err != nil {
		t.Fatal(err)
	}
}

// validated is what validate --files finds in a project on DuckDB that has one webhook.
func validated(t *testing.T, dir, pipeline string) *engine.ValidateDocument {
	t.Helper()
	cfg := &config.Config{Dir: dir, Profile: "dev", Notifications: []config.Webhook{{Name: "ops"}}}
	cfg.Warehouse.Type, cfg.Warehouse.Path = config.DuckDB, filepath.Join(dir, "warehouse.duckdb")
	dialect, _, err := warehouseOf(cfg, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := engine.New(engine.Deps{Config: cfg, Dialect: dialect, Database: databaseOf(cfg), Handlers: allHandlers()}).
		Validate(t.Context(), engine.ValidateRequest{Files: true, Pipeline: pipeline})
	if doc == nil {
		t.Fatal(err)
	}
	if fails := slices.ContainsFunc(doc.Problems, func(p fault.Problem) bool { return p.Level == "FAIL" }); fails != fault.Has(err, fault.CheckFailed) {
		t.Errorf("the error is %v", err)
	}
	return doc
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// validate checks a project of many pipelines, in its files and in the Engine DB's rows.
func (b *bench) validate(p *page) error {
	const pipelines, tasks = 1000, 20
	dir := filepath.Join(b.dir, "validate")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	texts := map[string]string{}
	for i := range pipelines {
		text := task("setup", "", "SQL_ACTION: SETUP_TABLE", fmt.Sprintf("TARGET_OBJECT: t.p%d_merged", i), `SOURCE_SQL: "SELECT id, name FROM raw.source"`)
		for j := range tasks - 1 {
			params := []string{"SQL_ACTION: CREATE_TABLE", fmt.Sprintf("TARGET_OBJECT: t.p%d_%d", i, j+1)}
			after, from := "", "raw.source"
			if j > 0 {
				after, from = fmt.Sprintf("t%d", j), fmt.Sprintf("t.p%d_%d", i, j)
			}
			if j == tasks-2 {
				after += ", setup"
				params = []string{"SQL_ACTION: SCD2_MERGE", fmt.Sprintf("TARGET_OBJECT: t.p%d_merged", i), "MERGE_KEY: id", "MERGE_COMPARE_COLUMNS: name"}
			}
			sql := fmt.Sprintf("\"WITH s AS (SELECT id, name FROM %s WHERE id > 0) SELECT s.id, max(s.name) AS name FROM s JOIN raw.other AS o ON o.id = s.id GROUP BY s.id\"", from)
			text += task(fmt.Sprintf("t%d", j+1), after, append(params, "SOURCE_SQL: "+sql)...)
		}
		texts[fmt.Sprintf("P%d", i)] = text
	}
	project, err := b.project(dir, sqliteEngine, b.duckdb(dir), texts)
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"validate", "--files"}, {"validate"}} {
		var costs []cost
		for range b.repeat {
			c, err := project.run(args...)
			if err != nil {
				return err
			}
			costs = append(costs, c)
		}
		p.validate(pipelines, tasks, args, median(costs))
	}
	return nil
}

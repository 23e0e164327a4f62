package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// wide runs pipelines of layers of a hundred tasks, each of which waits for two of the layer before: a thousand tasks,
// then ten thousand.
func (b *bench) wide(p *page) error {
	const width, targets = 100, 50
	for _, n := range []int{b.tasks, 10 * b.tasks} {
		dir := filepath.Join(b.dir, fmt.Sprintf("wide %d", n))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		var setup, tasks strings.Builder
		for i := range targets {
			setup.WriteString(task(fmt.Sprintf("s%d", i), "", "SQL_ACTION: SETUP_TABLE", "SETUP_FOR: APPEND_TABLE", fmt.Sprintf("TARGET_OBJECT: t.w%d", i), "SOURCE_SQL: SELECT 1 AS id"))
		}
		for i := range n {
			after := ""
			if i >= width {
				after = fmt.Sprintf("t%d, t%d", i-width, i-i%width-width+(i+1)%width)
			}
			tasks.WriteString(task(fmt.Sprintf("t%d", i), after, "SQL_ACTION: APPEND_TABLE", fmt.Sprintf("TARGET_OBJECT: t.w%d", i%targets), "SOURCE_SQL: SELECT 1 AS id"))
		}
		project, err := b.project(dir, sqliteEngine, b.duckdb(dir), map[string]string{"SETUP": setup.String(), "WIDE": tasks.String()})
		if err != nil {
			return err
		}
		apply, err := project.run("apply") // with nothing to change: reads and compares all
		if err != nil {
			return err
		}
		if _, err := project.run("run", "--pipeline", "SETUP"); err != nil {
			return err
		}
		run, err := project.run("run", "--pipeline", "WIDE")
		if err != nil {
			return err
		}
		status, err := project.run("status", "--pipeline", "WIDE")
		if err != nil {
			return err
		}
		p.wide(n, apply, run, status)
	}
	return nil
}

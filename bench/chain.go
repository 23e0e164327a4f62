package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// cold measures the shortest commands.
func (b *bench) cold(p *page) error {
	dir := filepath.Join(b.dir, "cold")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	w := b.duckdb(dir)
	project, err := b.project(dir, sqliteEngine, w, map[string]string{"TRIVIAL": task("one", "", "SQL_ACTION: CREATE_TABLE", "TARGET_OBJECT: t.one", "SOURCE_SQL: SELECT 1 AS id")})
	if err != nil {
		return err
	}
	for _, m := range []struct {
		title, bar string
		args       []string
	}{
		{"`version`", "50 ms", []string{"version"}},
		{"`status`", "", []string{"status", "--pipeline", "TRIVIAL"}},
		{"`plan` of one task", "", []string{"plan", "--pipeline", "TRIVIAL"}},
		{"`run` of one trivial task", "150 ms", []string{"run", "--pipeline", "TRIVIAL"}},
	} {
		var costs []cost
		for i := range 21 {
			if i == 0 { // so that there is a run to show
				if _, err := project.run("run", "--pipeline", "TRIVIAL"); err != nil {
					return err
				}
			}
			c, err := project.run(m.args...)
			if err != nil {
				return err
			}
			costs = append(costs, c)
		}
		p.cold(m.title, median(costs), m.bar)
	}
	return nil
}

// chains measures tasks that do next to nothing, one after the other.
func (b *bench) chains(p *page) error {
	local := func(dir string) (string, warehouse, func() error, error) {
		return sqliteEngine, b.duckdb(dir), func() error { return nil }, nil
	}
	mixed := func(dir string) (string, warehouse, func() error, error) {
		engine, drop, err := b.postgres("engine")
		w := b.duckdb(dir)
		w.server = engine.server
		return fmt.Sprintf("{type: postgres, url: %q}", engine.address), w, drop, err
	}
	servers := func(string) (string, warehouse, func() error, error) {
		w, drop, err := b.postgres("both")
		return fmt.Sprintf("{type: postgres, url: %q}", w.address), w, drop, err
	}
	for _, s := range []struct {
		title, bar string
		place      func(dir string) (engine string, w warehouse, drop func() error, err error)
	}{
		{"SQLite + DuckDB", "5 ms", local},
		{"PostgreSQL + DuckDB", "10 ms", mixed},
		{"PostgreSQL + PostgreSQL", "10 ms", servers},
	} {
		if b.server == "" && s.title != "SQLite + DuckDB" {
			continue
		}
		dir := filepath.Join(b.dir, "chain "+s.title)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		engine, w, drop, err := s.place(dir)
		if err != nil {
			return err
		}
		run, hand, err := b.chain(dir, engine, w)
		if err := errors.Join(err, drop()); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		p.chain(s.title, run, hand, s.bar)
	}
	return nil
}

// chain runs the chain once to warm up the tables and then for the record.
func (b *bench) chain(dir, engine string, w warehouse) (run, hand cost, err error) {
	append1 := []string{"SQL_ACTION: APPEND_TABLE", "TARGET_OBJECT: t.engine", "SOURCE_SQL: SELECT 1 AS id"}
	var tasks strings.Builder
	tasks.WriteString(task("t0", "", append1...))
	for i := 1; i < b.tasks; i++ {
		tasks.WriteString(task(fmt.Sprintf("t%d", i), fmt.Sprintf("t%d", i-1), append1...))
	}
	setup := ""
	for _, target := range []string{"engine", "hand"} {
		setup += task("setup_"+target, "", "SQL_ACTION: SETUP_TABLE", "SETUP_FOR: APPEND_TABLE", "TARGET_OBJECT: t."+target, "SOURCE_SQL: SELECT 1 AS id")
	}
	project, err := b.project(dir, engine, w, map[string]string{"SETUP": setup, "CHAIN": tasks.String()})
	if err != nil {
		return run, hand, err
	}
	if _, err := project.run("run", "--pipeline", "SETUP"); err != nil {
		return run, hand, err
	}
	var engines, hands []cost
	for range min(3, b.repeat) {
		c, err := project.run("run", "--pipeline", "CHAIN")
		if err != nil {
			return run, hand, err
		}
		engines = append(engines, c)
		one := "BEGIN;\nINSERT INTO t.hand (id, pipeline_id, pipeline_run_id, task_run_id, create_date) SELECT 1, 0, 0, 0, now();\nCOMMIT;\n"
		if c, err = project.hand(w, strings.Repeat(one, b.tasks)); err != nil {
			return run, hand, err
		}
		hands = append(hands, c)
	}
	return median(engines), median(hands), nil
}

package main

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// crowd starts one process for each of many pipelines at the same moment, all on one PostgreSQL server, and checks that
// every one ends well.
func (b *bench) crowd(p *page) (err error) {
	if b.server == "" {
		return nil
	}
	const processes, tasks = 200, 3
	dir := filepath.Join(b.dir, "crowd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	w, drop, err := b.postgres("crowd")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	pipelines := map[string]string{}
	for i := range processes {
		text, after := "", ""
		for j := range tasks {
			code := fmt.Sprintf("p%d_%d", i, j)
			text += task(code, after, "SQL_ACTION: CREATE_TABLE", "TARGET_OBJECT: t."+code, "SOURCE_SQL: SELECT 1 AS id")
			after = code
		}
		pipelines[fmt.Sprintf("P%d", i)] = text
	}
	project, err := b.project(dir, fmt.Sprintf("{type: postgres, url: %q}", w.address), w, pipelines)
	if err != nil {
		return err
	}
	alone, err := project.run("run", "--pipeline", "P0")
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	var each []time.Duration
	var failed []error
	began := time.Now()
	for i := range processes {
		group.Go(func() {
			command := exec.Command(b.program, "run", "--pipeline", fmt.Sprintf("P%d", i), "--config", dir)
			var out bytes.Buffer
			command.Stdout, command.Stderr = &out, &out
			start := time.Now()
			err := command.Run()
			mu.Lock()
			defer mu.Unlock()
			each = append(each, time.Since(start))
			if err != nil {
				failed = append(failed, fmt.Errorf("pipeline P%d: %w\n%s", i, err, out.String()))
			}
		})
	}
	group.Wait()
	wall := time.Since(began)
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d failed, the first: %w", len(failed), processes, failed[0])
	}
	if err := b.crowdIsRight(w.address, processes, tasks); err != nil {
		return err
	}
	slices.Sort(each)
	p.crowd(processes, tasks, alone, wall, each[len(each)/2], each[len(each)-1])
	return nil
}

// crowdIsRight counts what is recorded and what is in the warehouse.
func (b *bench) crowdIsRight(address string, processes, tasks int) (err error) {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var got []string
	for _, query := range []string{
		"SELECT COUNT(*) FROM etl_craft.AUD_PIPELINES_RUN_LOG WHERE STATUS = 'SUCCESS'",
		"SELECT COUNT(*) FROM etl_craft.AUD_TASK_ATTEMPTS WHERE STATUS = 'SUCCESS' AND ATTEMPT_NUMBER = 1",
		"SELECT COUNT(*) FROM etl_craft.AUD_TASK_ATTEMPTS",
		"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 't'",
	} {
		var n int
		if err := db.QueryRow(query).Scan(&n); err != nil {
			return err
		}
		got = append(got, strconv.Itoa(n))
	}
	want := fmt.Sprintf("%d %d %d %d", processes+1, (processes+1)*tasks, (processes+1)*tasks, processes*tasks)
	if found := strings.Join(got, " "); found != want {
		return fmt.Errorf("runs, first attempts, attempts and tables are %s, want %s", found, want)
	}
	return nil
}

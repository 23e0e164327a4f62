// Command bench measures etl-craft against hand-written SQL that leaves the same rows, and writes the results page.
//
//	go run ./bench [-only cold,validate,chain,actions,plans,rehash,wide,crowd,history] [-rows 1000000] [-stage 100000] [-tasks 1000] [-repeat 5] [-warehouses duckdb,postgres,iceberg,trino,databricks] [-actions SCD1_MERGE,SCD2_MERGE] [-budget 5m] [-out bench/RESULTS.md]
//
// It builds the program and runs it as a user would, in a process of its own; the hand-written SQL runs in a process of
// its own too, through the same drivers. ETL_CRAFT_TEST_POSTGRES names PostgreSQL servers, of which the last is measured;
// without it only SQLite and DuckDB are. Actions and plans are also measured on the servers that ETL_CRAFT_TEST_ICEBERG,
// ETL_CRAFT_TEST_TRINO and ETL_CRAFT_TEST_DATABRICKS name, in schemas that are dropped at the end. Sections of the page that a
// run does not measure stay as they are.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// options are the sizes of everything.
type options struct {
	only                       string
	rows, stage, tasks, repeat int
	taskRuns                   int
	out                        string
	warehouses                 string        // of actions and plans; "" is all
	actions                    string        // that are measured; "" is all
	budget                     time.Duration // of the actions on one far server
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "hand" {
		exitOn(byHand(os.Args[2:]))
		return
	}
	var o options
	flag.StringVar(&o.only, "only", "cold,validate,chain,actions,plans,rehash,wide,crowd,history", "what to measure, separated by commas")
	flag.IntVar(&o.rows, "rows", 1_000_000, "rows of the targets")
	flag.IntVar(&o.stage, "stage", 100_000, "rows that the SELECT returns")
	flag.IntVar(&o.tasks, "tasks", 1000, "tasks of the chain, and of the smaller wide pipeline")
	flag.IntVar(&o.taskRuns, "task-runs", 1_000_000, "task runs of the history")
	flag.IntVar(&o.repeat, "repeat", 5, "pairs of runs per action; the median counts")
	flag.StringVar(&o.warehouses, "warehouses", "", "of actions and plans, separated by commas; all that there are without it")
	flag.StringVar(&o.actions, "actions", "", "measured by -only actions, separated by commas; all without it")
	flag.DurationVar(&o.budget, "budget", 5*time.Minute, "after it, an action on Iceberg, Trino or Databricks has fewer pairs; at least one")
	flag.StringVar(&o.out, "out", filepath.Join("bench", "RESULTS.md"), "where the results page goes")
	flag.Parse()
	exitOn(measureAll(o))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measureAll(o options) (err error) {
	dir, err := os.MkdirTemp("", "etl-craft-bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{options: o, dir: dir, program: filepath.Join(dir, "etl-craft")}
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", b.program, "./cmd/etl-craft")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	servers := strings.Split(os.Getenv("ETL_CRAFT_TEST_POSTGRES"), ",")
	if b.server = servers[len(servers)-1]; b.server == "" {
		fmt.Fprintln(os.Stderr, "bench: PostgreSQL is left out: set ETL_CRAFT_TEST_POSTGRES, or use make bench")
	}
	results := newPage(b)
	for _, part := range []struct {
		name    string
		measure func(*page) error
	}{{"cold", b.cold}, {"validate", b.validate}, {"chain", b.chains}, {"actions", b.actions}, {"plans", b.plans}, {"rehash", b.rehash}, {"wide", b.wide}, {"crowd", b.crowd}, {"history", b.histories}} {
		if !strings.Contains(","+o.only+",", ","+part.name+",") {
			continue
		}
		if err := part.measure(results); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return results.write(o.out)
}

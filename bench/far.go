package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/internal/testservers"
)

// farServers are warehouses that are reached through the product's own packages, for want of a plain address of a driver.
var farServers = []testservers.Server{testservers.Iceberg, testservers.Trino, testservers.Databricks}

// far is one with schemas of this process' own; drop ends them, and the tables of actions in them.
func (b *bench) far(server testservers.Server) (w warehouse, setUp, drop string, err error) {
	address := os.Getenv(server.Variable)
	_, profile, err := server.Open(address)
	if err != nil {
		return w, "", "", err
	}
	w = warehouse{name: server.Name, title: server.Title, driver: server.Name, address: address, profile: "{" + profile + "}", far: true,
		prefix: fmt.Sprintf("bench_%x_%d_", time.Now().Unix(), os.Getpid())}
	for _, schema := range []string{"src", "engine", "hand"} {
		setUp += "CREATE SCHEMA " + w.prefix + schema + ";\n"
		tables := []string{"delta", "base"}
		if schema != "src" {
			tables = nil
			for _, a := range measured {
				tables = append(tables, a.table())
			}
		}
		for _, table := range tables {
			drop += "DROP TABLE IF EXISTS " + w.prefix + schema + "." + table + ";\n"
		}
		drop += "DROP SCHEMA " + w.prefix + schema + ";\n"
	}
	return w, setUp, drop, nil
}

// onFar does something on each of these warehouses that there is and that is asked for.
func (b *bench) onFar(name string, do func(dir string, w warehouse) error) error {
	for _, server := range farServers {
		if os.Getenv(server.Variable) == "" || !b.asked(server.Name) {
			continue
		}
		w, setUp, drop, err := b.far(server)
		if err != nil {
			return err
		}
		dir := filepath.Join(b.dir, name+"-"+server.Name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if _, err := (&project{b: b, dir: dir}).hand(w, setUp); err != nil {
			return err
		}
		err = do(dir, w)
		if _, dropped := (&project{b: b, dir: dir}).hand(w, drop); dropped != nil {
			err = errors.Join(err, dropped)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.title, err)
		}
	}
	return nil
}

// asked tells whether a warehouse is among those of -warehouses.
func (b *bench) asked(name string) bool {
	return b.warehouses == "" || slices.Contains(strings.Split(b.warehouses, ","), name)
}

// latency is what a process and the smallest statements take.
func (b *bench) latency(p *page, dir string, w warehouse) error {
	const n = 20
	small := "SELECT 1;\n"
	table := fmt.Sprintf("CREATE TABLE %[1]ssrc.delta AS SELECT 1 AS id;\nDROP TABLE %[1]ssrc.delta;\n", w.prefix)
	var took []time.Duration
	for _, text := range []string{small, strings.Repeat(small, 1+n), small + strings.Repeat(table, n/2)} {
		c, err := (&project{b: b, dir: dir}).hand(w, text)
		if err != nil {
			return err
		}
		took = append(took, c.said)
	}
	p.latency(w, took[0], (took[1]-took[0])/n, (took[2]-took[0])/(n/2))
	return nil
}

// plans counts the statements and commits of every action on every warehouse.
func (b *bench) plans(p *page) error {
	count := func(dir string, w warehouse) error {
		if w.far {
			if err := b.latency(p, dir, w); err != nil {
				return err
			}
		}
		project, err := b.project(dir, sqliteEngine, w, actionPipelines(w))
		if err != nil {
			return err
		}
		for _, a := range w.actions() {
			if !project.prepared {
				if err := project.prepare(w, a, 100); err != nil {
					return err
				}
			}
		}
		shown, err := exec.Command(b.program, "plan", "--pipeline", "ALL", "-o", "json", "--config", dir).Output()
		if err != nil {
			return fmt.Errorf("plan: %w\n%s", err, shown)
		}
		var doc struct {
			Tasks []struct {
				Task  string
				Steps []step
			}
		}
		if err := json.Unmarshal(shown, &doc); err != nil {
			return err
		}
		for _, a := range w.actions() {
			twin, err := statements(w, a.file(), subject{w.in("hand") + "." + a.table(), w.in("src") + ".delta"})
			if err != nil {
				return err
			}
			for _, t := range doc.Tasks {
				if t.Task == a.table() && len(t.Steps) == 0 {
					return fmt.Errorf("%s cannot be planned: %s", a.name, shown)
				}
				if t.Task == a.table() {
					p.plan(w, a, countPlan(t.Steps), countText(twin))
				}
			}
		}
		return nil
	}
	if err := b.onLocal("plans", count); err != nil {
		return err
	}
	return b.onFar("plans", count)
}

// step is one of a plan.
type step struct {
	SQL         string
	Transaction *int
}

// counted are the statements of a plan or of a file.
type counted struct{ statements, reads, commits int }

func (c *counted) add(sql string, alone bool) {
	c.statements++
	switch {
	case strings.HasPrefix(strings.TrimSpace(sql), "SELECT"):
		c.reads++
	case alone:
		c.commits++
	}
}

func countPlan(steps []step) (c counted) {
	transactions := map[int]bool{}
	for _, s := range steps {
		c.add(s.SQL, s.Transaction == nil)
		if s.Transaction != nil {
			transactions[*s.Transaction] = true
		}
	}
	c.commits += len(transactions)
	return c
}

func countText(text string) (c counted) {
	alone := true
	for _, s := range split(text) {
		switch s {
		case "BEGIN":
			alone = false
		case "COMMIT":
			alone = true
			c.commits++
		default:
			c.add(s, alone)
		}
	}
	return c
}

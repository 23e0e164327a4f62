package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/databricks"
	"github.com/etl-craft/etl-craft/warehouses/duckdbiceberg"
	"github.com/etl-craft/etl-craft/warehouses/trino"
)

// farServer is a warehouse that is reached through the product's own package, for want of a plain address of a driver.
type farServer struct {
	name, title, variable string
	open                  func(address string) (w warehouses.Warehouse, profile string, err error)
}

var farServers = []farServer{
	{"iceberg", "Iceberg through DuckDB", "ETL_CRAFT_TEST_ICEBERG", func(address string) (warehouses.Warehouse, string, error) {
		u, err := url.Parse(address)
		if err != nil {
			return nil, "", err
		}
		q := u.Query()
		u.RawQuery = ""
		o := duckdbiceberg.Options{
			CatalogURI: u.String(), Warehouse: q.Get("warehouse"), Catalog: "lake", ClientID: q.Get("client_id"), ClientSecret: q.Get("client_secret"),
			S3Endpoint: q.Get("s3_endpoint"), S3Region: q.Get("s3_region"), S3URLStyle: "path", S3KeyID: q.Get("s3_key_id"), S3Secret: q.Get("s3_secret"),
			ExtensionDir: q.Get("extension_dir"),
		}
		w, err := duckdbiceberg.Open(o)
		return w, fmt.Sprintf("{type: duckdb, table_format: iceberg, catalog_uri: %q, warehouse: %s, catalog: lake, client_id: %s, client_secret: %s, s3_endpoint: %q, "+
			"s3_region: %s, s3_url_style: path, s3_use_ssl: false, s3_key_id: %s, s3_secret: %s, extension_dir: %q}",
			o.CatalogURI, o.Warehouse, o.ClientID, o.ClientSecret, o.S3Endpoint, o.S3Region, o.S3KeyID, o.S3Secret, o.ExtensionDir), err
	}},
	{"trino", "Trino + Iceberg", "ETL_CRAFT_TEST_TRINO", func(address string) (warehouses.Warehouse, string, error) {
		u, err := url.Parse(address)
		if err != nil {
			return nil, "", err
		}
		port, err := strconv.Atoi(u.Port())
		if err != nil {
			return nil, "", err
		}
		o := trino.Options{Host: u.Hostname(), Port: port, User: u.User.Username(), Catalog: u.Query().Get("catalog")}
		w, err := trino.Open(o)
		return w, fmt.Sprintf("{type: trino, host: %s, port: %d, catalog: %s, user: %s}", o.Host, o.Port, o.Catalog, o.User), err
	}},
	{"databricks", "Databricks protocol, Spark + Delta", "ETL_CRAFT_TEST_DATABRICKS", func(address string) (warehouses.Warehouse, string, error) {
		u, err := url.Parse(address)
		if err != nil {
			return nil, "", err
		}
		o, err := databricks.ParseAddress(address)
		if err != nil {
			return nil, "", err
		}
		w, err := databricks.Open(o)
		return w, fmt.Sprintf("{type: databricks, host: %q, http_path: %s, catalog: %s, token: %s}", u.Scheme+"://"+u.Host, o.HTTPPath, o.Catalog, o.Token), err
	}},
}

// far is one with schemas of this process' own; drop ends them, and the tables of actions in them.
func (b *bench) far(server farServer) (w warehouse, setUp, drop string, err error) {
	address := os.Getenv(server.variable)
	_, profile, err := server.open(address)
	if err != nil {
		return w, "", "", err
	}
	w = warehouse{name: server.name, title: server.title, driver: server.name, address: address, profile: profile, far: true,
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
		if os.Getenv(server.variable) == "" || !b.asked(server.name) {
			continue
		}
		w, setUp, drop, err := b.far(server)
		if err != nil {
			return err
		}
		dir := filepath.Join(b.dir, name+"-"+server.name)
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

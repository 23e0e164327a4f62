package main

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// warehouse is where the tasks write, and how the hand-written SQL gets there.
type warehouse struct {
	name, title     string
	driver, address string
	profile         string // of etl-craft.yml
	server          *serverCPU
	far             bool   // of farServers
	prefix          string // of its schemas
}

// in is the name of a schema.
func (w warehouse) in(schema string) string { return w.prefix + schema }

func (b *bench) duckdb(dir string) warehouse {
	path := filepath.Join(dir, "warehouse.duckdb")
	return warehouse{name: "duckdb", title: "DuckDB", driver: "duckdb", address: path,
		profile: fmt.Sprintf("{type: duckdb, path: %q, create_schemas: true}", path)}
}

// postgres makes a database of its own; drop ends it.
func (b *bench) postgres(name string) (w warehouse, drop func() error, err error) {
	admin, err := sql.Open("pgx", b.server)
	if err != nil {
		return w, nil, err
	}
	name = fmt.Sprintf("bench_%s_%d", name, os.Getpid())
	if _, err := admin.Exec("CREATE DATABASE " + name); err != nil {
		return w, nil, err
	}
	u, err := url.Parse(b.server)
	if err != nil {
		return w, nil, err
	}
	u.Path = "/" + name
	w = warehouse{name: "postgres", title: "PostgreSQL", driver: "pgx", address: u.String(), server: newServerCPU(admin),
		profile: fmt.Sprintf("{type: postgres, url: %q, create_schemas: true}", u.String())}
	return w, func() error {
		_, err := admin.Exec("DROP DATABASE " + name + " WITH (FORCE)")
		_ = admin.Close()
		return err
	}, nil
}

// project is a folder with metadata that has been applied.
type project struct {
	b        *bench
	dir      string
	server   *serverCPU // of either database
	prepared bool       // its targets are there
}

const sqliteEngine = "{type: sqlite, path: engine.db}"

// project makes one; pipelines maps codes to their tasks, in YAML.
func (b *bench) project(dir, engine string, w warehouse, pipelines map[string]string) (*project, error) {
	p := &project{b: b, dir: dir, server: w.server}
	files := map[string]string{
		"etl-craft.yml": fmt.Sprintf("profile: bench\nprofiles:\n  bench:\n    engine: %s\n    warehouse: %s\n", engine, w.profile),
	}
	for code, tasks := range pipelines {
		files["pipelines/"+code+".yml"] = fmt.Sprintf("pipeline: %s\nname: %s\nrefresh_type: FULL\ntasks:\n%s", code, code, tasks)
	}
	if err := os.MkdirAll(filepath.Join(dir, "pipelines"), 0o700); err != nil {
		return nil, err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	for _, command := range []string{"migrate", "apply"} {
		if _, err := p.run(command); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// run runs the program in the project.
func (p *project) run(args ...string) (cost, error) {
	return run(p.server, p.b.program, append(args, "--config", p.dir)...)
}

// hand runs statements in a process of their own.
func (p *project) hand(w warehouse, statements string) (cost, error) {
	path := filepath.Join(p.dir, "hand.sql")
	if err := os.WriteFile(path, []byte(statements), 0o600); err != nil {
		return cost{}, err
	}
	return run(p.server, p.b.self, "hand", w.driver, w.address, path)
}

func task(code, after string, params ...string) string {
	text := "  - task: " + code + "\n"
	if after != "" {
		text += "    depends_on: [" + after + "]\n"
	}
	return text + "    params: {" + strings.Join(params, ", ") + "}\n"
}

package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// documented is the example of the reference, whole.
const documented = `
profile: dev                        # which profile; --profile NAME or $ETL_CRAFT_PROFILE win
env_file: .env                      # optional
orchestration:                      # shared; a profile may override any key
  mode: local                       # local | remote (an outside orchestrator owns order and gates)
  max_parallel_tasks: 8
  task_timeout_seconds: 21600       # 0 = none
  retries: 0
  log_dir: logs
  gate_wait_minutes: 60
  lock_wait_seconds: 0              # for a target lock; 0 = as long as the task may run
  target_count: exact               # exact | none: none leaves TARGET_COUNT null and saves a scan of large PostgreSQL tables
profiles:
  dev:
    engine:    { type: sqlite, path: engine.db }
    warehouse: { type: duckdb, path: warehouse.duckdb }
  prod:
    engine:    { type: postgres, host: db, port: 5432, database: etl, schema: etl_craft, user: etl, password: ${ENGINE_PASSWORD} }
    warehouse: { type: postgres, host: dw, database: analytics, user: loader, password: ${DW_PASSWORD} }
`

// write puts etl-craft.yml, and other files as name, content, into a new folder.
func write(t *testing.T, text string, others ...string) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, "etl-craft.yml")
	others = append(others, "etl-craft.yml", text)
	for i := 0; i < len(others); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, others[i]), []byte(others[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, path
}

func env(pairs ...string) func(string) (string, bool) {
	values := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	return func(name string) (string, bool) { v, ok := values[name]; return v, ok }
}

func load(t *testing.T, text string, o config.Options) (*config.Config, error) {
	t.Helper()
	_, path := write(t, text)
	if o.Env == nil {
		o.Env = env()
	}
	return config.Load(path, o)
}

func mustLoad(t *testing.T, text string, o config.Options) *config.Config {
	t.Helper()
	c, err := load(t, text, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDocumentedExample(t *testing.T) {
	dir, path := write(t, documented, ".env", "DW_PASSWORD='from file'\nENGINE_PASSWORD=overridden\n")
	shared := config.Orchestration{
		Mode: "local", MaxParallelTasks: 8, TaskTimeout: 6 * time.Hour, LogDir: filepath.Join(dir, "logs"),
		GateWait: time.Hour, DependencyGates: "enforce", TargetCount: "exact",
	}

	got, err := config.Load(path, config.Options{Env: env()})
	if err != nil {
		t.Fatal(err)
	}
	want := &config.Config{
		File: path, Dir: dir, Profile: "dev", Profiles: 2, EnvFile: filepath.Join(dir, ".env"), Orchestration: shared,
		Engine:    config.Engine{Type: "sqlite", Path: filepath.Join(dir, "engine.db")},
		Warehouse: config.Warehouse{Type: "duckdb", Path: filepath.Join(dir, "warehouse.duckdb"), TableFormat: "native"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dev (-want +got):\n%s", diff)
	}

	got, err = config.Load(path, config.Options{Profile: "prod", Env: env("ENGINE_PASSWORD", "of the process")})
	if err != nil {
		t.Fatal(err)
	}
	want = &config.Config{
		File: path, Dir: dir, Profile: "prod", Profiles: 2, EnvFile: filepath.Join(dir, ".env"), Orchestration: shared,
		Engine: config.Engine{Type: "postgres", Schema: "etl_craft",
			Server: config.Server{Host: "db", Port: 5432, Database: "etl", User: "etl", Password: "of the process", SSLMode: "prefer"}},
		Warehouse: config.Warehouse{Type: "postgres", TableFormat: "native",
			Server: config.Server{Host: "dw", Port: 5432, Database: "analytics", User: "loader", Password: "from file", SSLMode: "prefer"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("prod (-want +got):\n%s", diff)
	}
}

func TestOnlyTheSelectedProfileIsResolved(t *testing.T) {
	text := strings.Replace(documented, "env_file: .env", "", 1)
	mustLoad(t, text, config.Options{})
	_, err := load(t, text, config.Options{Profile: "prod"})
	for _, part := range []string{"profiles.prod.engine.password", "ENGINE_PASSWORD is not set", "profiles.prod.warehouse.password", "DW_PASSWORD is not set"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q:\n%v", part, err)
		}
	}
}

const duck = "warehouse: { type: duckdb, path: w.duckdb }"

func TestProfileRules(t *testing.T) {
	two := "profiles:\n  dev: { " + duck + " }\n  Prod: { " + duck + " }\n"
	chosen := "profile: dev\n" + two
	for _, c := range []struct {
		name, text, flag, env, want string
	}{
		{"a lone profile needs none", "profiles: { only: { " + duck + " } }", "", "", "only"},
		{"the file's", chosen, "", "", "dev"},
		{"the environment wins over the file", chosen, "", "Prod", "Prod"},
		{"the flag wins over both", chosen, "dev", "Prod", "dev"},
		{"case does not count", chosen, "PROD", "", "Prod"},
		{"an unused profile: may name a variable", "profile: ${UNSET}\n" + two, "dev", "", "dev"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := mustLoad(t, c.text, config.Options{Profile: c.flag, Env: env("ETL_CRAFT_PROFILE", c.env)})
			if got.Profile != c.want {
				t.Errorf("profile %q, want %q", got.Profile, c.want)
			}
		})
	}
}

func TestOrchestrationOverride(t *testing.T) {
	c := mustLoad(t, `
Orchestration: { Retries: 2, GATE_WAIT_MINUTES: 5, log_dir: /var/log/etl }
profiles:
  p:
    orchestration: { retries: 3, mode: REMOTE, task_timeout_seconds: "0", lock_wait_seconds: 7, target_count: none }
    warehouse: { type: duckdb, path: /data/w.duckdb }
`, config.Options{})
	want := config.Orchestration{Mode: "remote", MaxParallelTasks: 8, Retries: 3, LogDir: "/var/log/etl",
		GateWait: 5 * time.Minute, DependencyGates: "enforce", LockWait: 7 * time.Second, TargetCount: "none"}
	if diff := cmp.Diff(want, c.Orchestration); diff != "" {
		t.Error(diff)
	}
	if c.Engine.Type != "sqlite" || c.Engine.Path != filepath.Join(c.Dir, "engine.db") {
		t.Errorf("without an engine the Engine DB is %+v", c.Engine)
	}
	if c.Warehouse.Path != "/data/w.duckdb" {
		t.Errorf("an absolute path became %s", c.Warehouse.Path)
	}
}

func TestVariables(t *testing.T) {
	for _, c := range []struct{ written, want string }{
		{"plain", "plain"},
		{"DW_PASSWORD", "DW_PASSWORD"},
		{"a$b$", "a$b$"},
		{"$$", "$"},
		{"$$$$", "$$"},
		{"$${A}", "${A}"},
		{"${A}", "va$$lue${B}"},
		{"x${A}y${EMPTY}z", "xva$$lue${B}yz"},
		{"1.0", "1.0"},
		{"yes", "yes"},
		{"0x1F", "0x1F"},
		{"2026-09-01", "2026-09-01"},
		{`"  "`, "  "},
	} {
		text := "profiles: { p: { warehouse: { type: postgres, host: h, database: d, user: u, password: \"\" } } }"
		text = strings.Replace(text, `""`, "\n  "+c.written, 1)
		if strings.ContainsAny(c.written, "{}") {
			text = strings.Replace(text, c.written, `"`+c.written+`"`, 1)
		}
		got := mustLoad(t, text, config.Options{Env: env("A", "va$$lue${B}", "EMPTY", "")})
		if got.Warehouse.Password != c.want {
			t.Errorf("%s reads %q, want %q", c.written, got.Warehouse.Password, c.want)
		}
	}
}

func TestAnchorsAndMerges(t *testing.T) {
	c := mustLoad(t, `
profile: prod
profiles:
  dev: &dev
    orchestration: { retries: 1 }
    engine: &engine { type: postgres, host: a, database: d, user: u, password: x, sslmode: require }
    warehouse: &w { type: duckdb, path: dev.duckdb, threads: 2 }
  prod:
    <<: *dev
    engine: { <<: *engine, host: b, sslmode: }
    warehouse: { <<: [*w], path: prod.duckdb }
`, config.Options{})
	if e := c.Engine; e.Host != "b" || e.User != "u" || e.SSLMode != "prefer" {
		t.Errorf("engine %+v", e)
	}
	if w := c.Warehouse; filepath.Base(w.Path) != "prod.duckdb" || w.Threads != 2 || c.Orchestration.Retries != 1 {
		t.Errorf("warehouse %+v, orchestration %+v", w, c.Orchestration)
	}
}

func TestHome(t *testing.T) {
	t.Setenv("HOME", "/home/somebody")
	c := mustLoad(t, "profiles: { p: { engine: { path: ~/etl/engine.db }, "+duck+" } }", config.Options{})
	if c.Engine.Path != "/home/somebody/etl/engine.db" {
		t.Errorf("~/ became %s", c.Engine.Path)
	}
}

// TestTypes loads one warehouse of each type with every key it takes.
func TestTypes(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want config.Warehouse
	}{
		"duckdb": {
			"{ type: DuckDB, path: a.duckdb, threads: 4, memory_limit: 4GB, create_schemas: true, table_format: native }",
			config.Warehouse{Type: "duckdb", Path: "DIR/a.duckdb", Threads: 4, MemoryLimit: "4GB", CreateSchemas: true, TableFormat: "native"},
		},
		"duckdb over iceberg": {
			`{ type: duckdb, Table_format: Iceberg, catalog_uri: "http://c:8181", warehouse: wh, catalog: lake, client_id: i, client_secret: s,
			   token_url: "http://c/t", s3_endpoint: "o:9000", s3_region: eu, s3_url_style: path, s3_use_ssl: false, s3_key_id: k, s3_secret: ks, extension_dir: ext, threads: 1, memory_limit: 1GB }`,
			config.Warehouse{Type: "duckdb", TableFormat: "iceberg", CatalogURI: "http://c:8181", Warehouse: "wh", Catalog: "lake", ClientID: "i", ClientSecret: "s",
				TokenURL: "http://c/t", S3Endpoint: "o:9000", S3Region: "eu", S3URLStyle: "path", S3KeyID: "k", S3Secret: "ks", ExtensionDir: "DIR/ext", Threads: 1, MemoryLimit: "1GB"},
		},
		"duckdb over iceberg, defaults": {
			`{ type: duckdb, table_format: iceberg, catalog_uri: "http://c", warehouse: wh, catalog: lake, token: t }`,
			config.Warehouse{Type: "duckdb", TableFormat: "iceberg", CatalogURI: "http://c", Warehouse: "wh", Catalog: "lake", Token: "t", S3URLStyle: "vhost", S3UseSSL: true},
		},
		"postgres": {
			"{ type: postgres, host: h, port: 5433, database: d, user: u, password: p, sslmode: verify-full, sslrootcert: ca.pem, sslcert: c.pem, sslkey: /k.pem }",
			config.Warehouse{Type: "postgres", TableFormat: "native", Server: config.Server{Host: "h", Port: 5433, Database: "d", User: "u", Password: "p",
				SSLMode: "verify-full", SSLRootCert: "DIR/ca.pem", SSLCert: "DIR/c.pem", SSLKey: "/k.pem"}},
		},
		"postgres by url": {
			`{ type: postgres, url: "postgres://u:p@h:1/d?sslmode=require&sslrootcert=ca.pem" }`,
			config.Warehouse{Type: "postgres", TableFormat: "native", Server: config.Server{URL: "postgres://u:p@h:1/d?sslmode=require&sslrootcert=DIR%2Fca.pem"}},
		},
		"trino": {
			"{ type: trino, host: h, catalog: lake, schema: s, user: u, access_token: t, tls: true, port: 443 }",
			config.Warehouse{Type: "trino", TableFormat: "iceberg", Server: config.Server{Host: "h", Port: 443, User: "u"}, Catalog: "lake", Schema: "s", AccessToken: "t", TLS: true},
		},
		"trino, defaults": {
			"{ type: trino, host: h, catalog: lake, user: u, password: p }",
			config.Warehouse{Type: "trino", TableFormat: "iceberg", Server: config.Server{Host: "h", Port: 8080, User: "u", Password: "p"}, Catalog: "lake"},
		},
		"snowflake": {
			"{ type: snowflake, account: a, user: u, database: d, schema: s, warehouse: w, role: r, private_key_file: k.p8, private_key_passphrase: pp, table_format: iceberg }",
			config.Warehouse{Type: "snowflake", TableFormat: "iceberg", Account: "a", Server: config.Server{User: "u", Database: "d"}, Schema: "s", Warehouse: "w", Role: "r",
				PrivateKeyFile: "DIR/k.p8", PrivateKeyPassphrase: "pp"},
		},
		"databricks": {
			"{ type: databricks, host: h, http_path: /sql/1, catalog: c, schema: s, client_id: i, client_secret: cs }",
			config.Warehouse{Type: "databricks", TableFormat: "native", Server: config.Server{Host: "h"}, HTTPPath: "/sql/1", Catalog: "c", Schema: "s", ClientID: "i", ClientSecret: "cs"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustLoad(t, "profiles: { p: { warehouse: "+c.text+" } }", config.Options{})
			want := c.want
			for _, path := range []*string{&want.Path, &want.SSLRootCert, &want.SSLCert, &want.PrivateKeyFile, &want.ExtensionDir} {
				*path = strings.Replace(*path, "DIR", got.Dir, 1)
			}
			want.URL = strings.Replace(want.URL, "DIR", strings.ReplaceAll(got.Dir, "/", "%2F"), 1)
			if diff := cmp.Diff(want, got.Warehouse); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEngineOnPostgres(t *testing.T) {
	c := mustLoad(t, `profiles: { p: { engine: { type: postgres, host: pooler, database: d, user: u, schema: Other_1, direct: { host: db } }, `+duck+` } }`, config.Options{})
	want := config.Engine{Type: "postgres", Schema: "Other_1", Direct: config.Direct{Host: "db", Port: 5432},
		Server: config.Server{Host: "pooler", Port: 5432, Database: "d", User: "u", SSLMode: "prefer"}}
	if diff := cmp.Diff(want, c.Engine); diff != "" {
		t.Error(diff)
	}
}

func TestNotFound(t *testing.T) {
	_, err := config.Load(filepath.Join(t.TempDir(), "etl-craft.yml"), config.Options{})
	if !fault.Has(err, fault.ConfigNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestFind(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project, deep := filepath.Join(top, "project"), filepath.Join(top, "project", "a", "b")
	other := filepath.Join(top, "other.yml")
	if err := errors.Join(os.MkdirAll(deep, 0o755), os.WriteFile(filepath.Join(project, "etl-craft.yml"), nil, 0o600), os.WriteFile(other, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	find := func(explicit, want string, code fault.Code) {
		t.Helper()
		got, err := config.Find(explicit)
		if got != want || code != "" && !fault.Has(err, code) || code == "" && err != nil {
			t.Errorf("Find(%q) = %q, %v; want %q %s", explicit, got, err, want, code)
		}
	}
	in := filepath.Join(project, "etl-craft.yml")
	t.Setenv("ETL_CRAFT_CONFIG", "")
	t.Chdir(deep)
	find("", in, "")
	find(other, other, "")
	find("../..", in, "")
	find("nowhere.yml", "", fault.ConfigNotFound)
	t.Setenv("ETL_CRAFT_CONFIG", other)
	find("", other, "")
	find("../../etl-craft.yml", in, "")
	t.Setenv("ETL_CRAFT_CONFIG", "nowhere.yml")
	find("", "", fault.ConfigNotFound)
	t.Setenv("ETL_CRAFT_CONFIG", "")
	t.Chdir(top)
	find("", "", fault.ConfigNotFound)
}

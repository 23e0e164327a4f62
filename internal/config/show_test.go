package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/etl-craft/etl-craft/internal/config"
)

const everything = `
profile: p
notifications:
  ops: { url: "https://hooks/${S}", secret: ${S} }
  chat: { url: "https://chat/${S}", secret: ${S}, on: [success] }
profiles:
  p:
    notifications: { chat: { url: "https://other/${S}", secret: ${S}, on: [], timeout_seconds: 3 } }
    orchestration: { retries: 3 }
    engine: { type: postgres, host: pool, database: etl, user: "yes", password: ${S}, sslmode: disable, direct: { host: db, port: 5433 } }
    warehouse: { type: postgres, url: "postgres://loader:${S}@dw:5432/analytics?sslmode=require&sslpassword=${S}", create_schemas: true }
`

func TestYAML(t *testing.T) {
	c := mustLoad(t, everything, config.Options{Env: env("S", "hunter2")})
	want := `profile: p
orchestration:
  mode: local
  max_parallel_tasks: 8
  task_timeout_seconds: 21600
  retries: 3
  log_dir: DIR/logs
  gate_wait_minutes: 60
  dependency_gates: enforce
  lock_wait_seconds: 0
  target_count: exact
notifications:
  chat:
    url: '***'
    secret: '***'
    "on": []
    timeout_seconds: 3
  ops:
    url: '***'
    secret: '***'
    "on": [FAILED, CANCELLED, SLA_BREACHED]
    timeout_seconds: 10
profiles:
  p:
    engine:
      type: postgres
      host: pool
      port: 5432
      database: etl
      user: "yes"
      password: '***'
      sslmode: disable
      schema: etl_craft
      direct:
        host: db
        port: 5433
    warehouse:
      type: postgres
      table_format: native
      create_schemas: true
      url: postgres://loader:***@dw:5432/analytics?sslmode=require&sslpassword=***
`
	if diff := cmp.Diff(want, strings.ReplaceAll(c.YAML(), c.Dir, "DIR")); diff != "" {
		t.Error(diff)
	}
}

// TestYAMLLoads reads what is shown as a configuration of its own: only the secrets differ.
func TestYAMLLoads(t *testing.T) {
	text := `profiles: { p: { engine: { path: $$x.db }, warehouse: { type: snowflake, account: a, user: u, database: d, warehouse: w, token: ${S} } } }`
	c := mustLoad(t, text, config.Options{Env: env("S", "hunter2")})
	again := mustLoad(t, strings.ReplaceAll(c.YAML(), "***", "hunter2"), config.Options{})
	again.File, again.Dir = c.File, c.Dir
	if !again.PlainSecrets {
		t.Error("a token in the file is not a plain secret")
	}
	again.PlainSecrets = false
	if diff := cmp.Diff(c, again); diff != "" {
		t.Error(diff)
	}
}

func TestPlainSecrets(t *testing.T) {
	for warehouse, want := range map[string]bool{
		"{ type: duckdb, path: w.duckdb }":                                                 false,
		"{ type: postgres, host: h, database: d, user: u, password: ${S} }":                false,
		"{ type: postgres, host: h, database: d, user: u, password: hunter2 }":             true,
		"{ type: postgres, host: h, database: d, user: u, password: a$$b }":                true,
		"{ type: postgres, url: 'postgresql://u@h/d?sslmode=require&application_name=x' }": false,
		"{ type: postgres, url: 'postgresql://u:${S}@h/d' }":                               false,
		"{ type: postgres, url: '${S}' }":                                                  false,
		"{ type: postgres, url: 'postgresql://u:hunter2@h/d' }":                            true,
	} {
		c := mustLoad(t, "profiles: { p: { warehouse: "+warehouse+" } }", config.Options{Env: env("S", "postgresql://u:x@h/d")})
		if c.PlainSecrets != want {
			t.Errorf("%s: plain secrets %t, want %t", warehouse, c.PlainSecrets, want)
		}
	}
}

func TestNoSecretIsShown(t *testing.T) {
	for _, warehouse := range []string{
		"{ type: snowflake, account: a, user: u, database: d, warehouse: w, private_key_file: k, private_key_passphrase: ${S} }",
		"{ type: snowflake, account: a, user: u, database: d, warehouse: w, token: ${S} }",
		"{ type: trino, host: h, catalog: c, user: u, access_token: ${S} }",
		"{ type: databricks, host: h, http_path: p, catalog: c, client_id: i, client_secret: ${S} }",
		"{ type: duckdb, table_format: iceberg, catalog_uri: 'https://u:${S}@c/?token=${S}', warehouse: w, catalog: c, s3_key_id: k, s3_secret: ${S}, client_id: i, client_secret: ${S} }",
		"{ type: postgres, url: 'postgresql://:${S}@h/d?password=${S}' }",
	} {
		c := mustLoad(t, "profiles: { p: { warehouse: "+warehouse+" } }", config.Options{Env: env("S", "hunter2")})
		if shown := c.YAML(); strings.Contains(shown, "hunter2") || !strings.Contains(shown, "***") {
			t.Errorf("%s shows\n%s", warehouse, shown)
		}
	}
}

func TestFingerprint(t *testing.T) {
	_, path := write(t, everything)
	fingerprint := func(secret string) string {
		c, err := config.Load(path, config.Options{Env: env("S", secret)})
		if err != nil {
			t.Fatal(err)
		}
		return c.Fingerprint()
	}
	first := fingerprint("one")
	if len(first) != 64 || fingerprint("two") != first {
		t.Errorf("a changed secret changes the fingerprint %s", first)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(everything, "retries: 3", "retries: 4", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if fingerprint("one") == first {
		t.Error("a changed key leaves the fingerprint as it was")
	}
}

// The driver itself must read what is written for it.
func TestConnString(t *testing.T) {
	for _, c := range []struct {
		name, engine               string
		host, database, user, pass string
		port                       uint16
		directHost                 string
		directPort                 uint16
	}{
		{"fields", `{ type: postgres, host: pool, port: 6432, database: "d b", user: "o'neil", password: 'a\b''c d', sslmode: disable }`,
			"pool", "d b", "o'neil", `a\b'c d`, 6432, "pool", 6432},
		{"fields with a direct address", `{ type: postgres, host: pool, port: 6432, database: d, user: u, sslmode: disable, direct: { host: db } }`,
			"pool", "d", "u", "", 6432, "db", 5432},
		{"url with a direct address", `{ type: postgres, url: "postgres://u:p%40@pool:6432/d?sslmode=disable", direct: { host: "::1", port: 5433 } }`,
			"pool", "d", "u", "p@", 6432, "::1", 5433},
		{"url with a direct socket", `{ type: postgres, url: "postgres://u@pool:6432/d?sslmode=disable", direct: { host: /run/pg } }`,
			"pool", "d", "u", "", 6432, "/run/pg", 5432},
		{"socket with a direct address", `{ type: postgres, url: "postgres://u@/d?host=/run/pool&port=6432&sslmode=disable", direct: { host: db } }`,
			"/run/pool", "d", "u", "", 6432, "db", 5432},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &mustLoad(t, "profiles: { p: { engine: "+c.engine+", "+duck+" } }", config.Options{}).Engine
			main, err := pgconn.ParseConfig(e.ConnString())
			if err != nil {
				t.Fatal(err)
			}
			if main.Host != c.host || main.Port != c.port || main.Database != c.database || main.User != c.user || main.Password != c.pass || main.TLSConfig != nil {
				t.Errorf("the driver reads %s:%d %s %s %q", main.Host, main.Port, main.Database, main.User, main.Password)
			}
			direct, err := pgconn.ParseConfig(e.DirectConnString())
			if err != nil {
				t.Fatal(err)
			}
			if direct.Host != c.directHost || direct.Port != c.directPort || direct.Database != c.database || direct.Password != c.pass {
				t.Errorf("directly the driver reads %s:%d %s", direct.Host, direct.Port, direct.Database)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range config.Keys() {
		if k.Help == "" || k.Kind == "" || k.Name != strings.ToLower(k.Name) {
			t.Errorf("%s.%s is not described: %+v", k.Section, k.Name, k)
		}
		for _, variant := range append(k.For, "every type")[:max(1, len(k.For))] {
			id := k.Section + "." + k.Name + " of " + variant
			if seen[id] {
				t.Errorf("%s is declared twice", id)
			}
			seen[id] = true
		}
		if k.Kind == config.Choice && len(k.Allowed) == 0 {
			t.Errorf("%s.%s has no choices", k.Section, k.Name)
		}
	}
}

func TestSchema(t *testing.T) {
	defs := config.Schema()
	for _, k := range config.Keys() {
		name := k.Section
		switch name {
		case "":
			name = "config"
		case "profiles.NAME":
			name = "profile"
		case "engine.direct":
			name = "direct"
		case "notifications.NAME":
			name = "webhook"
		}
		definition := defs[name].(map[string]any)
		found := 0
		options, ok := definition["oneOf"].([]any)
		if !ok {
			options = []any{definition}
		}
		for _, option := range options {
			if _, ok := option.(map[string]any)["properties"].(map[string]any)[k.Name]; ok {
				found++
			}
		}
		if found == 0 || ok && len(k.For) == 0 && found != len(options) {
			t.Errorf("the schema has %s.%s %d times", k.Section, k.Name, found)
		}
	}
}

package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/internal/config"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func problems(t *testing.T, text string, o config.Options) []string {
	t.Helper()
	_, err := load(t, text, o)
	if err == nil {
		return nil
	}
	return lines(t, err)
}

func lines(t *testing.T, err error) []string {
	t.Helper()
	e := fault.As(err)
	if e.Code != fault.ConfigInvalid {
		t.Fatalf("code %s: %v", e.Code, err)
	}
	var out []string
	for _, p := range e.Problems {
		line := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
		if p.Hint != "" {
			line += "; " + p.Hint
		}
		if !strings.Contains(e.Message, p.Message) {
			t.Errorf("the message lacks a problem: %s\n%s", line, e.Message)
		}
		out = append(out, line)
	}
	return out
}

// One case per rule; the lines are what a user reads.
func TestProblems(t *testing.T) {
	inWarehouse := func(keys string) string { return "profiles:\n  p:\n    warehouse: {" + keys + "}\n" }
	inEngine := func(keys string) string { return "profiles:\n  p:\n    " + duck + "\n    engine: {" + keys + "}\n" }
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", []string{"etl-craft.yml:1:1: the file is empty; etl-craft init my-project writes an example"}},
		{"only comments", "# nothing\n", []string{"etl-craft.yml:1:1: the file is empty; etl-craft init my-project writes an example"}},
		{"no mapping", "- a\n", []string{"etl-craft.yml:1:1: the file must be a mapping of keys to values, not a list; write it as key: value"}},
		{"syntax", "profile: dev\nprofiles: [\n", []string{"etl-craft.yml:2:1: not YAML: did not find expected node content; put text with : # , quotes or brackets between quotes, and look at the line before too"}},
		{"two documents", "a: 1\n---\nb: 2\n", []string{"etl-craft.yml:2:1: a second YAML document begins here; keep one file per document"}},
		{"not UTF-8", "profile: d\xff\n", []string{"etl-craft.yml:1:11: not UTF-8 text; save the file as UTF-8 text"}},
		{"control character", "a: 1\nb: \x00\n", []string{"etl-craft.yml:2:4: a control character; save the file as UTF-8 text"}},
		{"no profiles", "orchestration: {}\n", []string{"etl-craft.yml:1:1: profiles is missing; add profiles: with at least one environment"}},
		{"empty profiles", "profiles: {}\n", []string{"etl-craft.yml:1:1: profiles has no profile; add one, such as dev:"}},
		{"unknown keys", "porfile: dev\nprofiles:\n  dev:\n    wherehouse: {}\n    warehouse: { type: duckdb, path: w, xyzzy: 1 }\n  unused: { warehouse: { pasword: x } }\n", []string{
			"etl-craft.yml:1:1: unknown key porfile in the file; did you mean profile?",
			"etl-craft.yml:4:5: unknown key wherehouse in profiles.dev; did you mean warehouse?",
			"etl-craft.yml:5:41: unknown key xyzzy in profiles.dev.warehouse; known: type, table_format, create_schemas, path, threads, memory_limit, url, host, port, database, user, password, sslmode, sslrootcert, sslcert, sslkey, catalog, schema, access_token, tls, account, warehouse, role, token, private_key_file, private_key_passphrase, authenticator, http_path, client_id, client_secret, catalog_uri, token_url, s3_endpoint, s3_region, s3_url_style, s3_use_ssl, s3_key_id, s3_secret, extension_dir",
			"etl-craft.yml:6:26: unknown key pasword in profiles.unused.warehouse; did you mean password?",
			"etl-craft.yml:2:1: which profile of dev, unused is not said; set profile: in the file, $ETL_CRAFT_PROFILE or --profile",
		}},
		{"repeated keys", "profiles:\n  p:\n    Warehouse: { type: duckdb, path: a, PATH: b }\n    warehouse: {}\n  P: {}\nPROFILES: {}\n", []string{
			"etl-craft.yml:3:41: PATH is set twice in profiles.p.warehouse, first in line 3; remove one of them",
			"etl-craft.yml:4:5: warehouse is set twice in profiles.p, first in line 3; remove one of them",
			"etl-craft.yml:5:3: profile P is there already, as p; case does not count",
			"etl-craft.yml:6:1: PROFILES is set twice in the file, first in line 1; remove one of them",
		}},
		{"several profiles, none chosen", "profiles:\n  a: { " + duck + " }\n  b: { " + duck + " }\n", []string{
			"etl-craft.yml:1:1: which profile of a, b is not said; set profile: in the file, $ETL_CRAFT_PROFILE or --profile"}},
		{"unknown profile", "profile: prd\nprofiles:\n  dev: { " + duck + " }\n  prod: { " + duck + " }\n", []string{
			"etl-craft.yml:1:10: profile names a profile prd that does not exist; known: dev, prod; did you mean prod?"}},
		{"profile of a wrong shape", "profile: [dev]\nprofiles:\n  dev: [a]\n", []string{
			"etl-craft.yml:1:10: profile must be one value, not a list; write one value",
			"etl-craft.yml:3:8: profiles.dev must be a mapping of keys to values, not a list; write it as key: value"}},
		{"values of orchestration", "orchestration:\n  mode: locl\n  max_parallel_tasks: 0\n  retries: -1\n  task_timeout_seconds: 1.5\n  gate_wait_minutes: 99999999999\n  target_count: none\n  log_dir: [x]\nprofiles: { p: { " + duck + " } }\n", []string{
			`etl-craft.yml:2:9: orchestration.mode is "locl"; it takes local, remote; did you mean local?`,
			`etl-craft.yml:3:23: orchestration.max_parallel_tasks is "0"; it takes a whole number from 1 to 2147483647`,
			`etl-craft.yml:4:12: orchestration.retries is "-1"; it takes a whole number from 0 to 2147483647`,
			`etl-craft.yml:5:25: orchestration.task_timeout_seconds is "1.5"; it takes a whole number from 0 to 2147483647`,
			`etl-craft.yml:6:22: orchestration.gate_wait_minutes is "99999999999"; it takes a whole number from 0 to 35791394`,
			`etl-craft.yml:8:12: orchestration.log_dir must be one value, not a list; write one value`,
		}},
		{"notifications", "notifications:\n  ops: { url: 'ftp://x/', secret: whsec_!, on: [FAILD, FAILED, [x]], timeout_seconds: 0 }\n  b-c: {}\n  chat: { url: nowhere, secret: '' }\n  bare:\nprofiles: { p: { notifications: { ops2: { on: FAILED } }, " + duck + " } }\n", []string{
			"etl-craft.yml:2:15: notifications.ops.url is not an http or https address; https://host/path",
			"etl-craft.yml:2:35: notifications.ops.secret begins with whsec_ but is no Base64; whsec_ and the key in Base64, or a text of another beginning",
			`etl-craft.yml:2:49: notifications.ops.on has "FAILD"; it takes SUCCESS, FAILED, SKIPPED, CANCELLED, SLA_BREACHED; did you mean FAILED?`,
			"etl-craft.yml:2:64: notifications.ops.on must be one value, not a list; write one value",
			`etl-craft.yml:2:87: notifications.ops.timeout_seconds is "0"; it takes a whole number from 1 to 60`,
			"etl-craft.yml:3:3: notifications.b-c is not a plain name; use letters, digits and _, at most 63",
			"etl-craft.yml:4:16: notifications.chat.url cannot be used; it takes a URL; write special characters in it as %XX",
			"etl-craft.yml:4:33: notifications.chat.secret is empty; write secret: key of the signature: any text, or whsec_ and Base64",
			"etl-craft.yml:5:3: notifications.bare.secret is missing; add secret: key of the signature: any text, or whsec_ and Base64",
			"etl-craft.yml:5:3: notifications.bare.url is missing; add url: where to POST to, http or https",
			"etl-craft.yml:6:35: profiles.p.notifications.ops2.secret is missing; add secret: key of the signature: any text, or whsec_ and Base64",
			"etl-craft.yml:6:35: profiles.p.notifications.ops2.url is missing; add url: where to POST to, http or https",
			"etl-craft.yml:6:47: profiles.p.notifications.ops2.on must be a list, not one value; begin each item with -",
		}},
		{"no warehouse", "profiles:\n  p: {}\n", []string{
			"etl-craft.yml:2:3: profiles.p.warehouse is missing; add warehouse: { type: duckdb, path: warehouse.duckdb }"}},
		{"no type", inWarehouse("path: x"), []string{
			"etl-craft.yml:3:5: profiles.p.warehouse.type is missing; one of duckdb, postgres, trino, snowflake, databricks"}},
		{"unknown type", inWarehouse("type: postgresql"), []string{
			`etl-craft.yml:3:23: profiles.p.warehouse.type is "postgresql"; it takes duckdb, postgres, trino, snowflake, databricks; did you mean postgres?`}},
		{"keys of another type", inWarehouse("type: duckdb, path: w, host: h"), []string{
			"etl-craft.yml:3:40: profiles.p.warehouse.host does not apply to duckdb; it takes type, table_format, create_schemas, path, threads, memory_limit"}},
		{"duckdb without path", inWarehouse("type: duckdb"), []string{"etl-craft.yml:3:5: profiles.p.warehouse.path is missing; add path: the DuckDB file"}},
		{"duckdb with an empty path", inWarehouse("type: duckdb, path: ''"), []string{"etl-craft.yml:3:37: profiles.p.warehouse.path is empty; write path: the DuckDB file"}},
		{"duckdb in memory", inWarehouse("type: duckdb, path: ':memory:'"), []string{"etl-craft.yml:3:37: profiles.p.warehouse.path is :memory:, whose tables would be gone when the command ends; name a file"}},
		{"named duckdb in memory", inWarehouse("type: duckdb, path: ':memory:x'"), []string{"etl-craft.yml:3:37: profiles.p.warehouse.path is :memory:, whose tables would be gone when the command ends; name a file"}},
		{"numbers that are too high", "orchestration: { task_timeout_seconds: 9223372036854775807, lock_wait_seconds: 2147483648, gate_wait_minutes: 35791395, retries: 2147483648 }\nprofiles: { p: { " + duck + " } }\n", []string{
			`etl-craft.yml:1:40: orchestration.task_timeout_seconds is "9223372036854775807"; it takes a whole number from 0 to 2147483647`,
			`etl-craft.yml:1:80: orchestration.lock_wait_seconds is "2147483648"; it takes a whole number from 0 to 2147483647`,
			`etl-craft.yml:1:111: orchestration.gate_wait_minutes is "35791395"; it takes a whole number from 0 to 35791394`,
			`etl-craft.yml:1:130: orchestration.retries is "2147483648"; it takes a whole number from 0 to 2147483647`,
		}},
		{"empty paths that have a default", "orchestration: { log_dir: '' }\nprofiles: { p: { engine: { path: '' }, " + duck + " } }\n", []string{
			"etl-craft.yml:1:27: orchestration.log_dir is empty; write log_dir: folder of the attempts' logs",
			"etl-craft.yml:2:34: profiles.p.engine.path is empty; write path: the Engine DB's file",
		}},
		{"sqlite in memory", inEngine("path: ':MEMORY:'"), []string{"etl-craft.yml:4:20: profiles.p.engine.path is :memory:, whose tables would be gone when the command ends; name a file"}},
		{"iceberg on duckdb with a path", inWarehouse("type: duckdb, table_format: iceberg, path: x, catalog_uri: 'http://c', warehouse: w, catalog: c"), []string{
			"etl-craft.yml:3:54: profiles.p.warehouse.path does not apply to duckdb with table_format iceberg; it takes type, table_format, create_schemas, threads, memory_limit, catalog_uri, warehouse, catalog, token, client_id, client_secret, token_url, s3_endpoint, s3_region, s3_url_style, s3_use_ssl, s3_key_id, s3_secret, extension_dir"}},
		{"the only format of postgres", inWarehouse("type: postgres, host: h, database: d, user: u, table_format: iceberg"), []string{
			`etl-craft.yml:3:78: profiles.p.warehouse.table_format is "iceberg"; it takes native`}},
		{"the only format of trino", inWarehouse("type: trino, host: h, catalog: d, user: u, table_format: native"), []string{
			`etl-craft.yml:3:74: profiles.p.warehouse.table_format is "native"; it takes iceberg`}},
		{"postgres, what is missing", inWarehouse("type: postgres, port: 70000, sslcert: x"), []string{
			"etl-craft.yml:3:5: profiles.p.warehouse.host is missing; add host: host, or folder of the Unix socket",
			"etl-craft.yml:3:5: profiles.p.warehouse.database is missing; add database: name of the database",
			"etl-craft.yml:3:5: profiles.p.warehouse.user is missing; add user: user to connect as",
			`etl-craft.yml:3:39: profiles.p.warehouse.port is "70000"; it takes a whole number from 1 to 65535`,
			"etl-craft.yml:3:55: profiles.p.warehouse.sslcert is set without sslkey; set sslkey too"}},
		{"url beside other keys", inWarehouse("type: postgres, url: 'postgres://h/d', password: x"), []string{
			"etl-craft.yml:3:56: profiles.p.warehouse.password and url are both set; put it into url, or remove url"}},
		{"url of something else", inWarehouse("type: postgres, url: 'mysql://h/d'"), []string{
			"etl-craft.yml:3:38: profiles.p.warehouse.url is not a PostgreSQL URL; postgres://user@host:port/database; write special characters as %XX"}},
		{"url without a database", inWarehouse("type: postgres, url: 'postgres://h/'"), []string{
			"etl-craft.yml:3:38: profiles.p.warehouse.url names no database; postgres://user@host:port/database"}},
		{"no url at all", inWarehouse("type: postgres, url: ''"), []string{
			"etl-craft.yml:3:38: profiles.p.warehouse.url cannot be used; it takes a URL; write special characters in it as %XX"}},
		{"engine keys of postgres on sqlite", inEngine("host: db"), []string{
			"etl-craft.yml:4:14: profiles.p.engine.host does not apply to sqlite; it takes type, path"}},
		{"direct on sqlite", inEngine("direct: {host: h}"), []string{
			"etl-craft.yml:4:14: profiles.p.engine.direct does not apply to sqlite; it takes type, path"}},
		{"direct", inEngine("type: postgres, host: h, database: d, user: u, schema: a-b, direct: {prt: 1}"), []string{
			"etl-craft.yml:4:74: profiles.p.engine.direct.host is missing; add host: host of the database itself",
			"etl-craft.yml:4:69: profiles.p.engine.schema is not a plain name; use letters, digits and _, at most 63",
			"etl-craft.yml:4:83: unknown key prt in profiles.p.engine.direct; did you mean port?"}},
		{"engine type", inEngine("type: duckdb"), []string{
			`etl-craft.yml:4:20: profiles.p.engine.type is "duckdb"; it takes sqlite, postgres`}},
		{"snowflake signs in one way", inWarehouse("type: snowflake, account: a, user: u, database: d, warehouse: w, token: t, password: p"), []string{
			"etl-craft.yml:3:89: profiles.p.warehouse has both password and token; keep one of them"}},
		{"snowflake signs in", inWarehouse("type: snowflake, account: a, user: u, database: d, warehouse: w, private_key_passphrase: p"), []string{
			"etl-craft.yml:3:5: profiles.p.warehouse does not say how to sign in; set one of password, token, private_key_file, authenticator",
			"etl-craft.yml:3:106: profiles.p.warehouse.private_key_passphrase is set without private_key_file; set private_key_file too"}},
		{"databricks client", inWarehouse("type: databricks, host: h, http_path: /p, catalog: c, client_id: i"), []string{
			"etl-craft.yml:3:82: profiles.p.warehouse.client_id is set without client_secret; set client_secret too"}},
		{"trino signs in one way", inWarehouse("type: trino, host: h, catalog: c, user: u, password: p, access_token: t, tls: yes"), []string{
			`etl-craft.yml:3:95: profiles.p.warehouse.tls is "yes"; it takes true or false`,
			"etl-craft.yml:3:87: profiles.p.warehouse has both password and access_token; keep one of them"}},
		{"variables", "profiles:\n  p:\n    warehouse:\n      type: postgres\n      host: ${HOST}\n      user: ${}\n      database: ${x-y}\n      password: a${b\n      port: ${PORT}\n", []string{
			"etl-craft.yml:5:13: profiles.p.warehouse.host: environment variable HOST is not set; export HOST=…",
			"etl-craft.yml:6:13: profiles.p.warehouse.user: ${ begins a variable that does not read ${NAME}; write $${ for the text ${",
			"etl-craft.yml:7:17: profiles.p.warehouse.database: ${ begins a variable that does not read ${NAME}; write $${ for the text ${",
			"etl-craft.yml:8:17: profiles.p.warehouse.password: ${ begins a variable that does not read ${NAME}; write $${ for the text ${",
			"etl-craft.yml:9:13: profiles.p.warehouse.port: environment variable PORT is not set; export PORT=…"}},
		{"a tag", "profiles: { p: { warehouse: { type: duckdb, path: !secret w } } }\n", []string{
			"etl-craft.yml:1:51: profiles.p.warehouse.path has a tag that means nothing here; quote text that begins with !"}},
		{"a merge of itself", "profiles: &p\n  <<: *p\n  dev: { " + duck + " }\n", []string{
			"etl-craft.yml:1:11: << in profiles contains itself; remove the inner <<"}},
		{"an odd key", "profiles:\n  [a]: {}\n", []string{
			"etl-craft.yml:2:3: a key of profiles must be a name; write a plain name in front of the colon",
			"etl-craft.yml:1:1: profiles has no profile; add one, such as dev:"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := problems(t, c.text, config.Options{})
			want := append([]string{}, c.want...)
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProblemsOfFlagAndEnvironment(t *testing.T) {
	text := "profiles:\n  dev: { " + duck + " }\n"
	got := problems(t, text, config.Options{Profile: "prod"})
	want := []string{"etl-craft.yml:1:1: --profile names a profile prod that does not exist; known: dev"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = problems(t, text, config.Options{Env: env("ETL_CRAFT_PROFILE", "dve")})
	want = []string{"etl-craft.yml:1:1: $ETL_CRAFT_PROFILE names a profile dve that does not exist; known: dev"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMessage(t *testing.T) {
	_, err := load(t, "profile: x\nprofiles:\n  dev: { "+duck+" }\n", config.Options{})
	e := fault.As(err)
	if want := "etl-craft.yml:1:10: profile names a profile x that does not exist"; e.Message != want || e.Hint != "known: dev" {
		t.Errorf("one problem reads %q, hint %q", e.Message, e.Hint)
	}
	if fault.ExitCode(err) != 3 {
		t.Errorf("exit code %d", fault.ExitCode(err))
	}
	_, err = load(t, "a: 1\nb: 2\nprofiles: { p: { "+duck+" } }\n", config.Options{})
	want := `2 problems in etl-craft.yml:
  etl-craft.yml:1:1: unknown key a in the file; known: profile, env_file, orchestration, notifications, profiles
  etl-craft.yml:2:1: unknown key b in the file; known: profile, env_file, orchestration, notifications, profiles`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestEnvFile(t *testing.T) {
	text := "env_file: vars.env\nprofiles: { p: { warehouse: { type: postgres, host: ${H}, database: d, user: u } } }\n"
	for _, c := range []struct {
		name, content string
		process       []string
		host          string
		want          []string
	}{
		{"a variable of the file", "# comment\nexport H=fromfile\n", nil, "fromfile", nil},
		{"byte order mark, CRLF", "\ufeffH='x y'\r\nI=2\r\n", nil, "x y", nil},
		{"the process wins", "H=fromfile\n", []string{"H", "process"}, "process", nil},
		{"an unreadable line is not shown", "A=1\nB='multi\nline'\nH hunter2\nC=3\n", nil, "", []string{
			"vars.env:4:1: not a NAME=value line; put values with spaces or special characters between single quotes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, path := write(t, text, "vars.env", c.content)
			got, err := config.Load(path, config.Options{Env: env(c.process...)})
			if c.want == nil {
				if err != nil || got.Warehouse.Host != c.host {
					t.Fatalf("%v, %v", got, err)
				}
				return
			}
			if diff := cmp.Diff(c.want, lines(t, err)); diff != "" {
				t.Error(diff)
			}
		})
	}

	t.Run("missing", func(t *testing.T) {
		dir, path := write(t, text)
		_, err := config.Load(path, config.Options{Env: env("H", "h")})
		want := []string{"etl-craft.yml:1:11: env_file " + filepath.Join(dir, "vars.env") + " does not exist; create it, or remove env_file"}
		if diff := cmp.Diff(want, lines(t, err)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("named by a variable of the process", func(t *testing.T) {
		dir, path := write(t, strings.Replace(text, "vars.env", "${ENVS}/vars.env", 1))
		if err := os.Mkdir(filepath.Join(dir, "envs"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "envs", "vars.env"), []byte("H=h\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(path, config.Options{Env: env("ENVS", "envs")}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSecretsStayOutOfMessages makes every mistake that could print a value.
func TestSecretsStayOutOfMessages(t *testing.T) {
	for _, text := range []string{
		"profiles: { p: { warehouse: { type: postgres, host: h, database: d, user: u, password: *hunter2 } } }",
		"profiles: { p: { warehouse: { type: postgres, host: h, database: d, user: u, password: !hunter2 } } }",
		"profiles: { p: { warehouse: { type: postgres, host: h, database: d, user: u, password: [hunter2] } } }",
		"profiles: { p: { warehouse: { type: postgres, host: h, database: d, user: u, password: 'hunter2${X' } } }",
		"profiles: { p: { warehouse: { type: postgres, host: h, database: d, user: u, password: \"hunter2\\0\" } } }",
		"profiles: { p: { warehouse: { type: postgres, url: 'postgres://u:hunter2%@h/d' } } }",
		"profiles: { p: { warehouse: { type: postgres, url: 'mysql://u:hunter2@h/d' } } }",
		"profiles: { p: { warehouse: { type: postgres, url: 'postgres://u:hunter2@h' } } }",
		"profiles: { p: { warehouse: { type: postgres, host: h, database: d, user: u, port: ${SECRET} } } }",
		"profiles: { p: { warehouse: { type: postgres, host: h, database: d, user: u, sslmode: ${SECRET} } } }",
		"profiles: { p: { warehouse: { type: ${SECRET} } } }",
		"profiles: { p: { warehouse: { type: duckdb, path: ${SECRET}, host: hunter2 } } }",
	} {
		_, err := load(t, text, config.Options{Env: env("SECRET", "hunter2")})
		if err == nil {
			t.Errorf("no error from %s", text)
			continue
		}
		e := fault.As(err)
		if strings.Contains(e.Error()+e.Hint, "hunter2") {
			t.Errorf("the message shows the secret: %v\nhint: %s", err, e.Hint)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(documented), "dev")
	f.Add([]byte("profiles: &p\n  <<: *p\n  dev: { "+duck+" }\n"), "")
	f.Add([]byte("a: &a [*a]\nprofiles: *a"), "")
	f.Add([]byte("? [a]\n: b\n<<: [{a: 1}, *x]"), "x")
	f.Add([]byte("profiles: { p: { warehouse: { type: postgres, url: \"postgres://u:${X}@h/d?sslcert=a\" } } }"), "p")
	f.Add([]byte("env_file: .\nprofiles: {p: {engine: {type: postgres, direct: {}}, warehouse: {type: duckdb, table_format: iceberg}}}"), "p")
	f.Fuzz(func(t *testing.T, data []byte, profile string) {
		path := filepath.Join(t.TempDir(), "etl-craft.yml")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path, config.Options{Profile: profile, Env: env("X", "y")})
		if err == nil {
			if c.YAML() == "" || c.Fingerprint() == "" || c.Warehouse.Type == "" {
				t.Fatalf("an incomplete configuration: %+v", c)
			}
			return
		}
		e := fault.As(err)
		if e.Code != fault.ConfigInvalid || len(e.Problems) == 0 {
			t.Fatalf("code %s, problems %v", e.Code, e.Problems)
		}
		for _, p := range e.Problems {
			if p.Line < 1 || p.Column < 1 || p.File == "" || p.Message == "" {
				t.Fatalf("a problem without its place: %+v", p)
			}
		}
	})
}

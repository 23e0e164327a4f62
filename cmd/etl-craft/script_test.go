package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/duckdb/duckdb-go/v2"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"

	"github.com/etl-craft/etl-craft/engine/store/storetest"
)

var update = flag.Bool("update", false, "rewrite the texts that scripts compare with")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"etl-craft": main})
}

func TestScripts(t *testing.T) {
	p := scriptParams("")
	p.Dir = "testdata/script"
	testscript.Run(t, p)
}

// TestOldestPostgreSQL runs what asks the server's catalog on the oldest server too; the scripts take the newest.
func TestOldestPostgreSQL(t *testing.T) {
	p := scriptParams("oldest")
	p.Files = []string{"testdata/script/doctor_postgres.txtar"}
	testscript.Run(t, p)
}

// scriptParams are those of scripts that use the newest server, or the "oldest".
func scriptParams(server string) testscript.Params {
	return testscript.Params{
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("ETL_CRAFT_ACTOR", "tester")
			e.Setenv("PG_SERVER", server)
			e.Values[remembered{}] = &remembered{}
			e.Values[background{}] = map[string]*begun{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"json":      jsonValue,
			"duckdb":    func(ts *testscript.TestScript, _ bool, args []string) { query(ts, "duckdb", args) },
			"psql":      func(ts *testscript.TestScript, _ bool, args []string) { query(ts, "pgx", args) },
			"occupy":    occupy,
			"sqlite":    func(ts *testscript.TestScript, _ bool, args []string) { query(ts, "sqlite", args) },
			"interrupt": interrupt,
			"await":     await,
			"awaitrows": awaitrows,
			"begin":     begin,
			"ends":      ends,
			"sigkill":   sigkill,
			"mode":      mode,
			"replace":   replace,
			"postgres":  postgresServer,
			"refusals":  refusals,
			"remember":  remember,
			"unchanged": unchanged,
			"webhook":   webhook,
		},
		Condition: func(name string) (bool, error) {
			if name == "postgres" {
				return os.Getenv(storetest.DSNs) != "", nil
			}
			return false, fmt.Errorf("unknown condition %s", name)
		},
	}
}

// exits CODE COMMAND... runs a command that must end with CODE.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		code = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// json PATH VALUE compares a value in the one document on stdout: json tasks.0.error.code NULL_MERGE_KEYS. A list's element
// may be named by its task or check, as in tasks.load.status, and tasks.length is the number of elements.
func jsonValue(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: json PATH VALUE")
	}
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	d.UseNumber()
	var doc any
	ts.Check(d.Decode(&doc))
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		ts.Fatalf("there is more than one document on stdout")
	}
	for _, name := range strings.Split(args[0], ".") {
		switch v := doc.(type) {
		case map[string]any:
			value, ok := v[name]
			if !ok {
				ts.Fatalf("there is no %s in %s", name, args[0])
			}
			doc = value
		case []any:
			if name == "length" {
				doc = len(v)
				continue
			}
			i, err := strconv.Atoi(name)
			if err != nil {
				i = slices.IndexFunc(v, func(element any) bool {
					object, ok := element.(map[string]any)
					return ok && (object["task"] == name || object["check"] == name)
				})
			}
			if i < 0 {
				ts.Fatalf("%s: there is no %s", args[0], name)
			}
			if i >= len(v) {
				ts.Fatalf("%s: only %d elements", args[0], len(v))
			}
			doc = v[i]
		default:
			ts.Fatalf("%s: nothing below %v", args[0], doc)
		}
	}
	got := "null"
	if doc != nil {
		got = fmt.Sprint(doc)
	}
	if (got == args[1]) == neg {
		ts.Fatalf("%s is %q, want %q", args[0], got, args[1])
	}
}

// query is duckdb FILE SQL, sqlite FILE SQL and psql URL SQL: the rows go to stdout, values separated by |. With -f FILE in
// place of the SQL it runs the statements of a file, each of which ends a line.
func query(ts *testscript.TestScript, driver string, args []string) {
	if len(args) != 2 && (len(args) != 3 || args[1] != "-f") {
		ts.Fatalf("usage: %s FILE SQL, %[1]s FILE -f SCRIPT", driver)
	}
	where := args[0]
	if driver != "pgx" {
		where = ts.MkAbs(where)
	}
	statements := args[1:]
	if args[1] == "-f" {
		statements = strings.Split(strings.TrimSuffix(ts.ReadFile(args[2]), ";\n"), ";\n")
	}
	for _, statement := range statements {
		text, err := rows(driver, where, statement)
		ts.Check(err)
		_, err = io.WriteString(ts.Stdout(), text)
		ts.Check(err)
	}
}

// occupy FILE keeps a DuckDB file open, as another program would, until the script ends.
func occupy(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("duckdb", ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(db.Ping())
	ts.Defer(func() { ts.Check(db.Close()) })
}

func rows(driver, file, statement string) (string, error) {
	db, err := sql.Open(driver, file)
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	rows, err := db.Query(statement)
	if err != nil {
		return "", err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for rows.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return "", err
		}
		texts := make([]string, len(values))
		for i, v := range values {
			texts[i] = "NULL"
			if v != nil {
				texts[i] = fmt.Sprint(v)
			}
		}
		b.WriteString(strings.Join(texts, "|") + "\n")
	}
	return b.String(), rows.Err()
}

// interrupt COUNT TASK COMMAND... starts a command, sends it one or two SIGINTs, or with HUP two SIGHUPs, once TASK runs, and
// expects exit code 130.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: interrupt COUNT TASK COMMAND...")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	program, err := exec.LookPath(filepath.Join(binFolder(ts), args[2]))
	ts.Check(err)
	c := exec.CommandContext(ctx, program, args[3:]...)
	c.Dir = ts.MkAbs(".")
	for _, name := range []string{"HOME", "PATH", "ETL_CRAFT_ACTOR", "PG_URL", "PG_SCHEMA"} {
		c.Env = append(c.Env, name+"="+ts.Getenv(name))
	}
	stderr := &awaited{}
	c.Stdout, c.Stderr = ts.Stdout(), stderr
	with := syscall.SIGINT
	if args[0] == "HUP" {
		with = syscall.SIGHUP
		signal.Notify(make(chan os.Signal, 1), with) // under nohup it is ignored, which the command would inherit
	}
	ts.Check(c.Start())
	send := func() {
		if err := c.Process.Signal(with); err != nil {
			ts.Fatalf("signal: %v\n%s", err, stderr)
		}
	}
	stderr.await(ctx, "task="+args[1]+" ")
	send()
	if args[0] != "1" {
		stderr.await(ctx, "no more tasks start")
		send()
	}
	err = c.Wait()
	_, _ = io.WriteString(ts.Stderr(), stderr.String())
	var failed *exec.ExitError
	if !errors.As(err, &failed) || failed.ExitCode() != 130 {
		ts.Fatalf("the command ended with %v, want exit code 130\n%s", err, stderr)
	}
}

// await PATTERN COMMAND... repeats a command that only reads until its output matches.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await PATTERN COMMAND...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		_ = ts.Exec(args[1], args[2:]...) // there may be nothing to read yet
		if pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("the output never matched %s", args[0])
}

// binFolder is where testscript put the commands: the first folder of $PATH.
func binFolder(ts *testscript.TestScript) string {
	return filepath.SplitList(ts.Getenv("PATH"))[0]
}

// awaited is a stream that can be waited on.
type awaited struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (a *awaited) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.Write(b)
}

func (a *awaited) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.String()
}

func (a *awaited) await(ctx context.Context, text string) {
	for !strings.Contains(a.String(), text) && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
}

// mode PERMISSIONS FILE... compares the permissions of files, in octal.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	for _, file := range args[1:] {
		info, err := os.Stat(ts.MkAbs(file))
		ts.Check(err)
		if got := fmt.Sprintf("%o", info.Mode().Perm()); (got == args[0]) == neg {
			ts.Fatalf("%s has the permissions %s, want %s", file, got, args[0])
		}
	}
}

// postgres makes a database for the script and a role that owns nothing, both dropped after it, and sets $PG_URL, $PG_DATABASE,
// $PG_SCHEMA, a name for schemas, and $PG_ROLE and $PG_ROLE_URL, by which the role connects.
func postgresServer(ts *testscript.TestScript, _ bool, _ []string) {
	servers := strings.Split(os.Getenv(storetest.DSNs), ",")
	server, name := servers[len(servers)-1], fmt.Sprintf("cli_%d_%d", os.Getpid(), time.Now().UnixNano())
	if ts.Getenv("PG_SERVER") == "oldest" {
		server = servers[0]
	}
	all := func(statements ...string) {
		for _, statement := range statements {
			_, err := rows("pgx", server, statement)
			ts.Check(err)
		}
	}
	all("CREATE DATABASE "+name, "CREATE ROLE "+name+" LOGIN")
	ts.Defer(func() { all("DROP DATABASE "+name+" WITH (FORCE)", "DROP ROLE "+name) })
	address, err := url.Parse(server)
	ts.Check(err)
	address.Path = "/" + name
	ts.Setenv("PG_URL", address.String())
	address.User = url.User(name)
	ts.Setenv("PG_ROLE_URL", address.String())
	for _, variable := range []string{"PG_DATABASE", "PG_SCHEMA", "PG_ROLE"} {
		ts.Setenv(variable, name)
	}
}

// replace FILE OLD NEW changes a file.
func replace(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: replace FILE OLD NEW")
	}
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		ts.Fatalf("%s does not contain %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(text, args[1], args[2])), 0o600))
}

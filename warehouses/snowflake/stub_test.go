package snowflake

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// stub answers the driver as an account would, as far as a test needs, and keeps what it was sent.
type stub struct {
	*httptest.Server
	login func(w http.ResponseWriter) // nil lets everyone in
	run   func(w http.ResponseWriter, r *http.Request, sent request)
	abort func(w http.ResponseWriter)

	mu     sync.Mutex
	logins []map[string]any
	sent   []request
	aborts []string // request ids
	others []string // paths
}

type request struct {
	SQLText      string         `json:"sqlText"`
	DescribeOnly bool           `json:"describeOnly"`
	Parameters   map[string]any `json:"parameters"`
	ID           string         `json:"-"`
}

const factsAnswer = `{"success":true,"data":{"queryId":"q","queryResultFormat":"json","statementTypeId":4096,"total":1,"returned":1,
"rowtype":[{"name":"A","type":"text"},{"name":"B","type":"text"},{"name":"C","type":"text"},{"name":"D","type":"text"},{"name":"E","type":"text"},{"name":"F","type":"text"},{"name":"G","type":"text"}],
"rowset":[["4711","ORG","ACC","DB","PUBLIC","LOADER","9.1.0"]]}}`

func newStub(t *testing.T) *stub {
	s := &stub{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var reader io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		reader, _ = gzip.NewReader(r.Body)
	}
	body, _ := io.ReadAll(reader)
	w.Header().Set("Content-Type", "application/json")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case "/session/v1/login-request":
		var m struct{ Data map[string]any }
		_ = json.Unmarshal(body, &m)
		s.logins = append(s.logins, m.Data)
		if s.login != nil {
			s.login(w)
			return
		}
		_, _ = io.WriteString(w, `{"success":true,"data":{"token":"T","masterToken":"M","sessionId":4711,"parameters":[],"sessionInfo":{}}}`)
	case "/queries/v1/query-request":
		sent := request{ID: r.URL.Query().Get("requestId")}
		_ = json.Unmarshal(body, &sent)
		s.sent = append(s.sent, sent)
		if strings.Contains(sent.SQLText, "current_organization_name()") {
			_, _ = io.WriteString(w, factsAnswer)
			return
		}
		s.mu.Unlock()
		s.run(w, r, sent)
		s.mu.Lock()
	case "/queries/v1/abort-request":
		var m struct {
			RequestID string `json:"requestId"`
		}
		_ = json.Unmarshal(body, &m)
		s.aborts = append(s.aborts, m.RequestID)
		s.abort(w)
	default:
		s.others = append(s.others, r.URL.Path)
		_, _ = io.WriteString(w, `{"success":true}`)
	}
}

// statements are those that sessions sent, but for what they ask when they begin.
func (s *stub) statements() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.sent), func(r request) bool { return strings.Contains(r.SQLText, "current_organization_name()") })
}

func (s *stub) options() Options {
	return Options{Account: s.URL, User: "loader", Password: "pa55-word", Database: "db", Schema: "public", Warehouse: "wh"}
}

func (s *stub) session(t *testing.T, o Options) warehouses.Session {
	t.Helper()
	session, err := open(t, o).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
	return session
}

func answers(text string) func(http.ResponseWriter, *http.Request, request) {
	return func(w http.ResponseWriter, _ *http.Request, _ request) { _, _ = io.WriteString(w, text) }
}

func failure(number, state, message string) string {
	text, _ := json.Marshal(message)
	return fmt.Sprintf(`{"success":false,"code":%q,"message":%s,"data":{"errorCode":%q,"sqlState":%q,"queryId":"q1"}}`, number, text, number, state)
}

// claims are those of a JSON Web Token.
func claims(t *testing.T, token any) map[string]any {
	t.Helper()
	parts := strings.Split(fmt.Sprint(token), ".")
	if len(parts) != 3 {
		t.Fatalf("no token: %v", token)
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func writeKey(t *testing.T, name string, key *rsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWaysToSignIn(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	file := writeKey(t, "key.p8", key)
	for _, c := range []struct {
		name string
		with func(o *Options)
		want map[string]any
	}{
		{"password", func(*Options) {}, map[string]any{"LOGIN_NAME": "loader", "PASSWORD": "pa55-word"}},
		{"token", func(o *Options) { o.Password, o.Token = "", "t0ken" }, map[string]any{"AUTHENTICATOR": "PROGRAMMATIC_ACCESS_TOKEN", "TOKEN": "t0ken"}},
		{"oauth", func(o *Options) { o.Password, o.Token, o.Authenticator = "", "t0ken", "oauth" }, map[string]any{"AUTHENTICATOR": "OAUTH", "TOKEN": "t0ken"}},
		{"key", func(o *Options) { o.Password, o.PrivateKeyFile = "", file }, map[string]any{"AUTHENTICATOR": "SNOWFLAKE_JWT"}},
		{"key and authenticator", func(o *Options) { o.Password, o.PrivateKeyFile, o.Authenticator = "", file, "snowflake_jwt" }, map[string]any{"AUTHENTICATOR": "SNOWFLAKE_JWT"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStub(t)
			o := s.options()
			c.with(&o)
			facts := s.session(t, o).Facts()
			if want := (warehouses.Facts{Identity: "snowflake:ORG-ACC", Database: "DB", Schema: "PUBLIC", User: "LOADER", Version: "9.1.0"}); facts != want {
				t.Errorf("facts %+v", facts)
			}
			sent := s.logins[0]
			for name, want := range c.want {
				if sent[name] != want {
					t.Errorf("%s is %v, want %v", name, sent[name], want)
				}
			}
			if c.want["AUTHENTICATOR"] == "SNOWFLAKE_JWT" {
				if got := claims(t, sent["TOKEN"]); got["sub"] != "EMULATOR.LOADER" {
					t.Errorf("claims %v", got)
				}
			}
			parameters, _ := sent["SESSION_PARAMETERS"].(map[string]any)
			for _, name := range []string{"TIMEZONE", "TIMESTAMP_TYPE_MAPPING", "ERROR_ON_NONDETERMINISTIC_MERGE", "ABORT_DETACHED_QUERY", "QUOTED_IDENTIFIERS_IGNORE_CASE"} {
				if parameters[name] != settings[name] {
					t.Errorf("%s is %v", name, parameters[name])
				}
			}
		})
	}
}

func TestEncryptedKeys(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("without openssl")
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	plain := writeKey(t, "plain.p8", key)
	for _, how := range [][]string{{"-v2", "des3"}, {"-v2", "aes-256-cbc"}, {"-v2", "aes-128-cbc", "-v2prf", "hmacWithSHA1"}, {"-v2", "aes-192-cbc", "-v2prf", "hmacWithSHA512"}} {
		path := filepath.Join(t.TempDir(), "key.p8")
		if out, err := exec.Command(openssl, append([]string{"pkcs8", "-topk8", "-in", plain, "-out", path, "-passout", "pass:s3cret"}, how...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		got, err := readPrivateKey(path, "s3cret")
		if err != nil || !got.Equal(key) {
			t.Errorf("%v: %v", how, err)
		}
		for _, wrong := range []string{"", "another"} {
			_, err := readPrivateKey(path, wrong)
			if err == nil || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v with passphrase %q: %v", how, wrong, err)
			}
		}
	}
}

func TestUnusableOptions(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	for _, o := range []Options{
		{Account: "a", User: "u", PrivateKeyFile: missing},
		{Account: "a", User: "u", Authenticator: "nonsense"},
		{Account: "http://user:pa55-word@host", User: "u"},
		{DSN: "user:pa55-word@"},
	} {
		_, err := Open(o)
		if !fault.Has(err, fault.ConfigInvalid) || strings.Contains(err.Error(), "pa55-word") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestLoginFails(t *testing.T) {
	for _, c := range []struct {
		name      string
		login     func(w http.ResponseWriter)
		retryable bool
	}{
		{"refused", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"success":false,"code":"390100","message":"Incorrect username or password was specified: pa55-word","data":{"loginName":"loader"}}`)
		}, false},
		{"token", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"success":false,"code":"394400","message":"Programmatic access token is invalid.","data":{}}`)
		}, false},
		{"no warehouse", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"success":false,"code":"390201","message":"The requested warehouse does not exist or not authorized.","data":{}}`)
		}, false},
		{"busy", func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStub(t)
			s.login = c.login
			_, err := open(t, s.options()).Session(t.Context())
			e := fault.As(err)
			if e == nil || e.Code != fault.WarehouseDown || e.Retryable != c.retryable {
				t.Fatalf("%+v", e)
			}
			if text := e.Error() + e.Hint; strings.Contains(text, "pa55-word") || !strings.Contains(text, "loader") {
				t.Errorf("the error says %q", text)
			}
			if len(s.logins) != 1 {
				t.Errorf("%d logins", len(s.logins))
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		number, state, message string
		code                   fault.Code
		retryable              bool
	}{
		{"001003", "42000", "SQL compilation error:\nsyntax error line 1 at position 0", fault.StatementFailed, false},
		{"002003", "42S02", "SQL compilation error:\nObject 'X' does not exist or not authorized.", fault.StatementFailed, false},
		{"100072", "22000", "NULL result in a non-nullable column", fault.StatementFailed, false},
		{"100090", "42P18", "Duplicate row detected during DML action", fault.StatementFailed, false},
		{"000625", "57014", "Statement '1' has locked table 'T' in transaction 2 and this lock has not yet been released.", fault.WriteConflict, true},
		{"000604", "57014", "SQL execution canceled", fault.StatementFailed, true},
		{"000630", "57014", "Statement reached its statement or warehouse timeout of 5 second(s) and was canceled.", fault.StatementFailed, false},
		{"000606", "57P03", "No active warehouse selected in the current session.", fault.StatementFailed, false},
		{"390111", "08001", "Session no longer exists. New login required to access the service.", fault.WarehouseDown, true},
	} {
		t.Run(c.number, func(t *testing.T) {
			s := newStub(t)
			s.run = answers(failure(c.number, c.state, c.message))
			_, err := s.session(t, s.options()).Exec(t.Context(), "MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE")
			e := fault.As(err)
			if e == nil || e.Code != c.code || e.Retryable != c.retryable {
				t.Fatalf("%+v", e)
			}
			if want := c.number + " (" + c.state + "): " + oneLine(c.message); !strings.Contains(e.Message, want) {
				t.Errorf("the error says %q, want %q", e.Message, want)
			}
		})
	}
}

// TestLostAnswer: what got no answer is not sent again, and is ended by another session.
func TestLostAnswer(t *testing.T) {
	for _, ends := range []bool{true, false} {
		s := newStub(t)
		s.run = func(w http.ResponseWriter, _ *http.Request, sent request) {
			if ends && strings.HasPrefix(sent.SQLText, "SELECT SYSTEM$CANCEL_ALL_QUERIES") {
				_, _ = io.WriteString(w, `{"success":true,"data":{"queryId":"q","queryResultFormat":"json","statementTypeId":4096,"rowtype":[{"name":"A","type":"text"}],"rowset":[["query 1 of session 4711 terminated."]],"total":1,"returned":1}}`)
				return
			}
			w.WriteHeader(http.StatusBadGateway)
		}
		session := s.session(t, s.options())
		_, err := session.Exec(t.Context(), "INSERT INTO t SELECT 1")
		e := fault.As(err)
		if e == nil || e.Code != fault.WarehouseDown || !e.Retryable {
			t.Fatalf("%+v", e)
		}
		if strings.Contains(e.Message, "may still run") == ends {
			t.Errorf("ended %t: %s", ends, e.Message)
		}
		if _, err := session.Exec(t.Context(), "INSERT INTO t SELECT 2"); !fault.Has(err, fault.WarehouseDown) {
			t.Errorf("the session goes on: %v", err)
		}
		var texts []string
		for _, r := range s.statements() {
			texts = append(texts, r.SQLText)
		}
		if want := []string{"INSERT INTO t SELECT 1", "SELECT SYSTEM$CANCEL_ALL_QUERIES(4711)"}; !slices.Equal(texts, want) {
			t.Errorf("sent %q", texts)
		}
	}
}

// TestCancel: the server is told to end the statement, and its answer is waited for.
func TestCancel(t *testing.T) {
	for _, answered := range []bool{true, false} {
		t.Run(fmt.Sprintf("answered_%t", answered), func(t *testing.T) {
			s := newStub(t)
			begun := make(chan string, 1)
			s.run = func(w http.ResponseWriter, r *http.Request, sent request) {
				if strings.HasPrefix(sent.SQLText, "SELECT SYSTEM$CANCEL_ALL") {
					w.WriteHeader(http.StatusBadGateway)
					return
				}
				begun <- sent.ID
				<-r.Context().Done()
			}
			const slow = 300 * time.Millisecond
			s.abort = func(w http.ResponseWriter) {
				time.Sleep(slow)
				if answered {
					_, _ = io.WriteString(w, `{"success":true}`)
				} else {
					w.WriteHeader(http.StatusBadGateway)
				}
			}
			session := s.session(t, s.options())
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("somebody pressed a key")
			var id string
			var at time.Time
			go func() {
				id = <-begun
				at = time.Now()
				cancel(why)
			}()
			_, err := session.Exec(ctx, "INSERT INTO t SELECT 1")
			if !fault.Has(err, fault.TaskCancelled) || !errors.Is(err, why) {
				t.Fatal(err)
			}
			if took := time.Since(at); took < slow {
				t.Errorf("returned after %s", took)
			}
			if len(s.aborts) != 1 || s.aborts[0] != id {
				t.Errorf("asked to end %q, the statement is %s", s.aborts, id)
			}
			if strings.Contains(err.Error(), "may still run") == answered {
				t.Errorf("answered %t: %v", answered, err)
			}
		})
	}
}

func TestRowsThatTheServerReports(t *testing.T) {
	result := func(statementType int, columns string, values string) string {
		return fmt.Sprintf(`{"success":true,"data":{"queryId":"q","queryResultFormat":"json","statementTypeId":%d,"rowtype":[%s],"rowset":[[%s]],"total":1,"returned":1}}`, statementType, columns, values)
	}
	fixed := func(name string) string { return `{"name":"` + name + `","type":"fixed","precision":19,"scale":0}` }
	for _, c := range []struct {
		name, answer string
		want         int64
	}{
		{"merge", result(0x3400, fixed("number of rows inserted")+","+fixed("number of rows updated"), `"2","3"`), 5},
		{"insert", result(0x3100, fixed("number of rows inserted"), `"7"`), 7},
		{"create", result(0x6000, `{"name":"status","type":"text"}`, `"Table T successfully created."`), -1},
		{"show", result(0x1000, `{"name":"status","type":"text"}`, `"x"`), -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStub(t)
			s.run = answers(c.answer)
			n, err := s.session(t, s.options()).Exec(t.Context(), "whatever")
			if err != nil || n != c.want {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
}

// TestOrigin: the history of an account drops comments in front, so that the tag has to tell why a statement ran.
func TestOrigin(t *testing.T) {
	s := newStub(t)
	s.run = answers(failure("001003", "42000", "syntax error"))
	session := s.session(t, s.options())
	ctx := warehouses.WithOrigin(t.Context(), 97, 412, "inspect")
	if err := session.Confirm(ctx, "SELEC 1"); !fault.Has(err, fault.SelectInvalid) {
		t.Errorf("confirmed: %v", err)
	}
	sent := s.statements()[0]
	const mark = "etl-craft pipeline_run_id=97 task_run_id=412 step=inspect"
	if !sent.DescribeOnly || sent.Parameters["QUERY_TAG"] != mark || !strings.HasPrefix(sent.SQLText, "/* "+mark+" */\n") {
		t.Errorf("sent %+v", sent)
	}
	if len(s.others) > 0 && slices.ContainsFunc(s.others, func(p string) bool { return strings.Contains(p, "telemetry") }) {
		t.Errorf("sent to %q", s.others)
	}
}

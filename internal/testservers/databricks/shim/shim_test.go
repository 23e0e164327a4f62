package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMessageRoundTrip(t *testing.T) {
	body := st(tBool, 1, true).set(tByte, 2, int8(-2)).set(tDouble, 3, uint64(1)<<62).set(tI16, 4, int16(-4)).set(tI32, 5, int32(-5))
	body.set(tI64, 6, int64(-6)).setText(7, "é").setStruct(8, st(tBool, 1, false))
	body.set(tMap, 9, &dict{keys: tString, values: tI32, entries: [][2]any{{[]byte("k"), int32(1)}}})
	body.set(tList, 10, &list{t: tList, of: tString, values: []any{[]byte("a"), []byte("b")}})
	want := &message{kind: msgCall, name: "X", seq: 7, body: body}
	got, err := readMessage(bufio.NewReader(bytes.NewReader(want.encode())))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(message{}, tree{}, field{}, dict{}, list{})); d != "" {
		t.Error(d)
	}
	cut := want.encode()
	for n := range cut {
		if _, err := readMessage(bufio.NewReader(bytes.NewReader(cut[:n]))); err == nil {
			t.Errorf("the first %d bytes were read as a message", n)
		}
	}
}

func TestSQL(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{rewrite(" truncate table a.b"), "DELETE FROM a.b"},
		{rewrite("USE CATALOG main"), "SET CATALOG main"},
		{rewrite("SELECT 'TRUNCATE TABLE x'"), "SELECT 'TRUNCATE TABLE x'"},
		{inserts("INSERT INTO a.`b c` (x) VALUES (1)"), "a.`b c`"},
		{inserts("insert overwrite table t select 1"), "t"},
		{inserts("UPDATE t SET a = 1"), ""},
		{literal("BIGINT", "5"), "5L"},
		{literal("INTEGER", "5 OR 1=1"), "CAST('5 OR 1=1' AS INTEGER)"},
		{literal("DECIMAL(4,2)", "-1.50"), "-1.50BD"},
		{literal("STRING", `it's \`), `'it\'s \\'`},
		{literal("DATE", "2024-01-02"), "DATE'2024-01-02'"},
		{plainMessage("org.apache.Foo$BarException: Error running query: [X] org.apache.YException: [X] no\n\tat a.b"), "[X] no"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	one := st(tString, 3, []byte("INT")).setStruct(4, st(tString, 1, []byte("1"))).setText(2, "a")
	null := st(tString, 3, []byte("STRING"))
	got := bind("SELECT :a, ?", &list{t: tList, of: tStruct, values: []any{one, null}})
	if want := "EXECUTE IMMEDIATE 'SELECT :a, ?' USING 1 AS `a`, NULL"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// spark answers on every connection with what answer makes of a message.
func spark(t *testing.T, answer func(m *message) *tree) *upstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for {
					m, err := readMessage(r)
					if err != nil {
						return
					}
					body := answer(m)
					if body == nil {
						continue // never
					}
					out := &message{kind: msgReply, name: m.name, seq: m.seq, body: st(tStruct, 0, body)}
					if _, err := c.Write(out.encode()); err != nil {
						return
					}
				}
			}()
		}
	}()
	return newUpstream(l.Addr().String())
}

// handle of a session or an operation.
func handle(id string) *tree { return st(tStruct, 1, st(tString, 1, []byte(id))) }

func TestSessionAndFailure(t *testing.T) {
	var asked []string
	s := &shim{token: "secret", direct: time.Second, upstream: spark(t, func(m *message) *tree {
		asked = append(asked, strings.TrimSpace(m.name+" "+m.body.text(1, 2)))
		switch m.name {
		case "OpenSession":
			if got := m.body.i32(1, 1); got != protocolAsked {
				t.Errorf("protocol %d asked for", got)
			}
			return st(tI32, 2, int32(0)).setStruct(3, handle("session"))
		case "ExecuteStatement":
			return st(tStruct, 1, st(tI32, 1, int32(0))).setStruct(2, handle("operation"))
		case "GetOperationStatus":
			return st(tI32, 2, failed).setText(5, "org.apache.XException: Error running query: [NOPE] no\n\tat x.y")
		}
		return &tree{}
	})}
	call := func(name string, request *tree, token string) (int, *tree) {
		m := &message{kind: msgCall, name: name, body: st(tStruct, 1, request)}
		r := httptest.NewRequest("POST", "/sql/1.0/warehouses/x", bytes.NewReader(m.encode()))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		answer, err := readMessage(bufio.NewReader(w.Body))
		if err != nil {
			return w.Code, nil
		}
		return w.Code, answer.body.sub(0)
	}

	if code, _ := call("OpenSession", &tree{}, "wrong"); code != 403 || len(asked) > 0 {
		t.Errorf("a wrong token: %d, and %q asked", code, asked)
	}
	_, opened := call("OpenSession", &tree{}, "secret")
	if got := opened.i32(2); got != protocolTold {
		t.Errorf("protocol %#x told", got)
	}
	direct := st(tI64, 1, int64(10))
	_, answer := call("ExecuteStatement", st(tStruct, 1, handle("session")).setText(2, "USE CATALOG c").setStruct(1281, direct), "secret")
	if got, want := answer.text(1281, 1, 1281), "[NOPE] no"; got != want {
		t.Errorf("the driver reads %q, want %q", got, want)
	}
	call("CloseSession", st(tStruct, 1, handle("session")), "secret")
	if _, again := call("OpenSession", &tree{}, "secret"); again.text(3, 1, 1) != opened.text(3, 1, 1) || again.text(3, 1, 1) == "" {
		t.Error("the session that was closed is not given out again")
	}
	want := []string{"OpenSession", "ExecuteStatement SET CATALOG c", "GetOperationStatus", "CloseOperation"}
	if d := cmp.Diff(want, asked); d != "" {
		t.Error(d)
	}
}

func TestGoneDriverCancels(t *testing.T) {
	cancelled := make(chan string, 1)
	ctx, gone := context.WithCancel(t.Context())
	s := &shim{direct: time.Minute, upstream: spark(t, func(m *message) *tree {
		switch m.name {
		case "GetOperationStatus":
			gone()
			return nil
		case "CancelOperation":
			cancelled <- m.body.text(1, 1, 1, 1)
		}
		return &tree{}
	})}
	if _, err := s.result(ctx, handle("operation"), 1); err == nil || err == io.EOF {
		t.Errorf("error %v", err)
	}
	select {
	case got := <-cancelled:
		if got != "operation" {
			t.Errorf("%q was cancelled", got)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing was cancelled")
	}
}

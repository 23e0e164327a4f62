package postgres

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/etl-craft/etl-craft/warehouses"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eachServer runs a test on every server of $ETL_CRAFT_TEST_POSTGRES.
func eachServer(t *testing.T, test func(t *testing.T, address string)) {
	t.Helper()
	addresses := os.Getenv("ETL_CRAFT_TEST_POSTGRES")
	if addresses == "" {
		t.Skip("$ETL_CRAFT_TEST_POSTGRES names no server")
	}
	for _, address := range strings.Split(addresses, ",") {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(u.Port(), func(t *testing.T) {
			t.Parallel()
			test(t, address)
		})
	}
}

func open(t *testing.T, o Options) warehouses.Warehouse {
	t.Helper()
	w, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// client is a session for a test's own statements.
type client struct {
	*testing.T
	*session
}

func connect(t *testing.T, w warehouses.Warehouse) *client {
	t.Helper()
	s, err := w.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &client{t, s.(*session)}
}

var number atomic.Int64

// unique is a name that no other test has.
func unique(prefix string) string {
	return fmt.Sprintf("%s_%x_%d", prefix, time.Now().UnixNano(), number.Add(1))
}

// schema creates a schema that goes with the test.
func (c *client) schema() string {
	c.Helper()
	name := unique("pt")
	c.exec("CREATE SCHEMA " + name)
	c.after("DROP SCHEMA " + name + " CASCADE")
	return name
}

// role creates a role that may log in and goes with the test.
func (c *client) role() string {
	c.Helper()
	name := unique("role")
	c.exec("CREATE ROLE " + name + " LOGIN")
	c.after("DROP OWNED BY "+name, "DROP ROLE "+name)
	return name
}

// after runs statements when the test has ended, and its context with it.
func (c *client) after(statements ...string) {
	c.Cleanup(func() {
		for _, s := range statements {
			if _, err := c.session.Exec(context.Background(), warehouses.SQL(s)); err != nil {
				c.Errorf("%s: %v", s, err)
			}
		}
	})
}

func (c *client) exec(statements ...string) {
	c.Helper()
	for _, s := range statements {
		if _, err := c.session.Exec(c.Context(), warehouses.SQL(s)); err != nil {
			c.Fatalf("%s: %v", s, err)
		}
	}
}

// value runs a query for one text.
func (c *client) value(query string, args ...any) string {
	c.Helper()
	rows, err := c.query(c.Context(), query, args...)
	if err != nil || len(rows) != 1 {
		c.Fatalf("%s: %d rows, %v", query, len(rows), err)
	}
	return rows[0][0]
}

func (c *client) table(schema, name string) *warehouses.Table {
	c.Helper()
	t, err := c.Table(c.Context(), warehouses.QualifiedName{Schema: schema, Table: name})
	if err != nil {
		c.Fatal(err)
	}
	return t
}

func (c *client) replacement(schema, name string) *warehouses.Replacement {
	c.Helper()
	r, err := c.Replacement(c.Context(), c.table(schema, name))
	if err != nil {
		c.Fatal(err)
	}
	return r
}

// until asks until the query says t.
func (c *client) until(query string, args ...any) {
	c.Helper()
	for c.value(query, args...) != "t" {
		time.Sleep(2 * time.Millisecond)
	}
}

func withUser(t *testing.T, address, user string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(user)
	return u.String()
}

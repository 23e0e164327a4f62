package databricks

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/warehousetest"
)

func TestMain(m *testing.M) {
	warehousetest.SideBySide(8)
	os.Exit(m.Run())
}

// server is the one that $ETL_CRAFT_TEST_DATABRICKS names.
func server(t *testing.T) Options {
	t.Helper()
	address := os.Getenv("ETL_CRAFT_TEST_DATABRICKS")
	if address == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("$ETL_CRAFT_TEST_DATABRICKS names no server")
		}
		t.Skip("$ETL_CRAFT_TEST_DATABRICKS names no server")
	}
	o, err := ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// common is the warehouse of all tests. It is never closed, because open-source Spark takes half a minute to end a session.
var common = sync.OnceValues(func() (warehouses.Warehouse, error) {
	o, err := ParseAddress(os.Getenv("ETL_CRAFT_TEST_DATABRICKS"))
	if err != nil {
		return nil, err
	}
	o.Settings["spark.databricks.delta.properties.defaults.feature.timestampNtz"] = "supported" // else a column of TIMESTAMP_NTZ cannot be added
	return Open(o)
})

// kept is a warehouse that a test does not close.
type kept struct{ warehouses.Warehouse }

func (kept) Close() error { return nil }

func shared(t *testing.T) warehouses.Warehouse {
	t.Helper()
	server(t)
	w, err := common()
	if err != nil {
		t.Fatal(err)
	}
	return kept{w}
}

// open is a warehouse of a test's own.
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

// client is a session for a test's own statements, with a schema of its own.
type client struct {
	*testing.T
	*session
	schema string
}

var schemas atomic.Int64

func connect(t *testing.T) *client {
	t.Helper()
	w := shared(t)
	c := &client{T: t, schema: fmt.Sprintf("dbx_%x_%d", time.Now().UnixNano(), schemas.Add(1))}
	c.session = c.another(w)
	c.exec("CREATE SCHEMA " + c.schema)
	t.Cleanup(func() {
		if _, err := c.session.Exec(context.Background(), warehouses.SQL("DROP SCHEMA "+c.schema+" CASCADE")); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *client) another(w warehouses.Warehouse) *session {
	c.Helper()
	s, err := w.Session(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		if err := s.Close(); err != nil {
			c.Error(err)
		}
	})
	return s.(*session)
}

func (c *client) exec(statements ...string) {
	c.Helper()
	for _, s := range statements {
		if _, err := c.session.Exec(c.Context(), warehouses.SQL(s)); err != nil {
			c.Fatalf("%s: %v", s, err)
		}
	}
}

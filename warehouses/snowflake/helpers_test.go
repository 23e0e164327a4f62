package snowflake

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/etl-craft/etl-craft/warehouses"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is the DSN of an account, or of the emulator that stands in for one.
func server(t *testing.T) string {
	t.Helper()
	address := os.Getenv("ETL_CRAFT_TEST_SNOWFLAKE")
	switch {
	case address == "" && os.Getenv("CI") == "true":
		t.Fatal("$ETL_CRAFT_TEST_SNOWFLAKE names no account or emulator")
	case address == "":
		t.Skip("$ETL_CRAFT_TEST_SNOWFLAKE names no account or emulator")
	}
	return address
}

// emulated tells whether that is the emulator.
func emulated(address string) bool { return strings.Contains(address, "protocol=http&") }

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

// client is a session for a test's own statements, in a schema that goes with the test.
type client struct {
	*testing.T
	*session
	schema string
}

var schemas atomic.Int64

func connect(t *testing.T, w warehouses.Warehouse) *client {
	t.Helper()
	s, err := w.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t, s.(*session), fmt.Sprintf("ST_%X_%d", time.Now().UnixNano(), schemas.Add(1))}
	c.exec("CREATE SCHEMA " + c.schema)
	t.Cleanup(func() {
		if _, err := s.Exec(context.Background(), warehouses.SQL("DROP SCHEMA "+c.schema+" CASCADE")); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *client) exec(statements ...string) {
	c.Helper()
	for _, s := range statements {
		if _, err := c.session.Exec(c.Context(), warehouses.SQL(s)); err != nil {
			c.Fatalf("%s: %v", s, err)
		}
	}
}

func (c *client) table(name string) warehouses.QualifiedName {
	return warehouses.QualifiedName{Database: c.Facts().Database, Schema: c.schema, Table: name}
}

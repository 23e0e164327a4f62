package trino

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/warehousetest"
)

func TestMain(m *testing.M) {
	warehousetest.SideBySide(8)
	goleak.VerifyTestMain(m)
}

// server reads $ETL_CRAFT_TEST_TRINO, as http://user@host:port?catalog=c&schema=s.
func server(t *testing.T) Options {
	t.Helper()
	address := os.Getenv("ETL_CRAFT_TEST_TRINO")
	if address == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("$ETL_CRAFT_TEST_TRINO names no server")
		}
		t.Skip("$ETL_CRAFT_TEST_TRINO names no server")
	}
	o, err := ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	return o
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

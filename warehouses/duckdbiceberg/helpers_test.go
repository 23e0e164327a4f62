package duckdbiceberg

import (
	"os"
	"testing"

	"github.com/etl-craft/etl-craft/warehouses"
)

// server reads the address of the test's catalog, http://host:port?warehouse=…&s3_endpoint=…, and skips without one.
func server(t *testing.T) Options {
	t.Helper()
	address := os.Getenv("ETL_CRAFT_TEST_ICEBERG")
	if address == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("ETL_CRAFT_TEST_ICEBERG names no Iceberg REST catalog")
		}
		t.Skip("ETL_CRAFT_TEST_ICEBERG names no Iceberg REST catalog")
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

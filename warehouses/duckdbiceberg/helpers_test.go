package duckdbiceberg

import (
	"net/url"
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
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	u.RawQuery = ""
	return Options{
		CatalogURI: u.String(), Warehouse: q.Get("warehouse"), Catalog: "lake", ClientID: q.Get("client_id"), ClientSecret: q.Get("client_secret"),
		S3Endpoint: q.Get("s3_endpoint"), S3Region: q.Get("s3_region"), S3URLStyle: "path", S3KeyID: q.Get("s3_key_id"), S3Secret: q.Get("s3_secret"),
		ExtensionDir: q.Get("extension_dir"),
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

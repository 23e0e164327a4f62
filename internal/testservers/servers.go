// Package testservers says how tests and benchmarks reach the servers that the scripts beside it start.
package testservers

import (
	"fmt"
	"net/url"

	"github.com/etl-craft/etl-craft/warehouses"
	"github.com/etl-craft/etl-craft/warehouses/databricks"
	"github.com/etl-craft/etl-craft/warehouses/duckdbiceberg"
	"github.com/etl-craft/etl-craft/warehouses/trino"
)

// Server is a warehouse of which all tests share one.
type Server struct {
	Name, Title string
	Variable    string // of the environment, with its address
	// Open reads the address; settings are its lines of etl-craft.yml, without braces.
	Open func(address string) (w warehouses.Warehouse, settings string, err error)
}

// The servers.
var (
	Iceberg    = Server{"iceberg", "Iceberg through DuckDB", "ETL_CRAFT_TEST_ICEBERG", openIceberg}
	Trino      = Server{"trino", "Trino + Iceberg", "ETL_CRAFT_TEST_TRINO", openTrino}
	Databricks = Server{"databricks", "Databricks protocol, Spark + Delta", "ETL_CRAFT_TEST_DATABRICKS", openDatabricks}
)

func openIceberg(address string) (warehouses.Warehouse, string, error) {
	o, err := duckdbiceberg.ParseAddress(address)
	if err != nil {
		return nil, "", err
	}
	w, err := duckdbiceberg.Open(o)
	return w, fmt.Sprintf("type: duckdb, table_format: iceberg, catalog_uri: %q, warehouse: %s, catalog: %s, client_id: %s, client_secret: %s, s3_endpoint: %q, "+
		"s3_region: %s, s3_url_style: %s, s3_use_ssl: false, s3_key_id: %s, s3_secret: %s, extension_dir: %q",
		o.CatalogURI, o.Warehouse, o.Catalog, o.ClientID, o.ClientSecret, o.S3Endpoint, o.S3Region, o.S3URLStyle, o.S3KeyID, o.S3Secret, o.ExtensionDir), err
}

func openTrino(address string) (warehouses.Warehouse, string, error) {
	o, err := trino.ParseAddress(address)
	if err != nil {
		return nil, "", err
	}
	w, err := trino.Open(o)
	return w, fmt.Sprintf("type: trino, host: %s, port: %d, catalog: %s, user: %s", o.Host, o.Port, o.Catalog, o.User), err
}

func openDatabricks(address string) (warehouses.Warehouse, string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, "", err
	}
	o, err := databricks.ParseAddress(address)
	if err != nil {
		return nil, "", err
	}
	w, err := databricks.Open(o)
	return w, fmt.Sprintf("type: databricks, host: %q, http_path: %s, catalog: %s, token: %s", u.Scheme+"://"+u.Host, o.HTTPPath, o.Catalog, o.Token), err
}

package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store/postgres"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func TestAddresses(t *testing.T) {
	fields := postgres.Config{Host: "db", Database: "etl", User: "me", Password: `p@s:/?#'" %`, SSLMode: "disable", DirectHost: "db1", DirectPort: 6000}
	url := postgres.Config{URL: "postgres://me:pw@db:7000/etl?sslmode=disable", DirectHost: "db1"}
	for name, c := range map[string]struct {
		config           postgres.Config
		password         string
		port, directPort uint16
	}{
		"fields": {fields, fields.Password, 5432, 6000},
		"url":    {url, "pw", 7000, 5432},
	} {
		got, err := c.config.Connect()
		if err != nil {
			t.Fatal(name, err)
		}
		if got.Host != "db" || got.Port != c.port || got.Database != "etl" || got.User != "me" || got.Password != c.password || got.TLSConfig != nil {
			t.Errorf("%s: %s:%d %s %s %q", name, got.Host, got.Port, got.Database, got.User, got.Password)
		}
		direct, err := c.config.Direct()
		if err != nil {
			t.Fatal(name, err)
		}
		if direct.Host != "db1" || direct.Port != c.directPort || direct.Database != "etl" || direct.Password != c.password {
			t.Errorf("%s: direct %s:%d %s", name, direct.Host, direct.Port, direct.Database)
		}
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	// Nothing listens on port 1.
	_, err := postgres.Open(context.Background(), postgres.Config{Host: "127.0.0.1", Port: 1, Database: "etl", User: "me", Password: "geheim"})
	if !fault.Has(err, fault.EngineUnreachable) || strings.Contains(err.Error(), "geheim") {
		t.Error(err)
	}
	_, err = postgres.Open(context.Background(), postgres.Config{URL: "postgres://me:geheim@db:port/etl"})
	if !fault.Has(err, fault.ConfigInvalid) || strings.Contains(err.Error(), "geheim") {
		t.Error(err)
	}
	_, err = postgres.Open(context.Background(), postgres.Config{Host: "db", Schema: `a"b`})
	if !fault.Has(err, fault.ConfigInvalid) {
		t.Error(err)
	}
}

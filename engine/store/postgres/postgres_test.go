package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store/postgres"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func TestAddresses(t *testing.T) {
	fields := postgres.Config{
		Address:       `host='db' dbname='etl' user='me' password='p@s:/?#\'" %' sslmode='disable'`,
		DirectAddress: `host='db1' port='6000' dbname='etl' user='me' password='p@s:/?#\'" %' sslmode='disable'`,
	}
	url := postgres.Config{Address: "postgres://me:pw@db:7000/etl?sslmode=disable", DirectAddress: "postgres://me:pw@db1/etl?sslmode=disable"}
	for name, c := range map[string]struct {
		config           postgres.Config
		password         string
		port, directPort uint16
	}{
		"fields": {fields, `p@s:/?#'" %`, 5432, 6000},
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
	_, err := postgres.Open(context.Background(), postgres.Config{Address: "host=127.0.0.1 port=1 dbname=etl user=me password=geheim"})
	if !fault.Has(err, fault.EngineUnreachable) || strings.Contains(err.Error(), "geheim") {
		t.Error(err)
	}
	_, err = postgres.Open(context.Background(), postgres.Config{Address: "postgres://me:geheim@db:port/etl"})
	if !fault.Has(err, fault.ConfigInvalid) || strings.Contains(err.Error(), "geheim") {
		t.Error(err)
	}
	_, err = postgres.Open(context.Background(), postgres.Config{Address: "host=db", Schema: `a"b`})
	if !fault.Has(err, fault.ConfigInvalid) {
		t.Error(err)
	}
}

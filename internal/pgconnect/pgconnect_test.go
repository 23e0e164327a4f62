package pgconnect

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestPatiently connects as a user who may have one connection at a time.
func TestPatiently(t *testing.T) {
	address, _, _ := strings.Cut(os.Getenv("ETL_CRAFT_TEST_POSTGRES"), ",")
	if address == "" {
		t.Skip("ETL_CRAFT_TEST_POSTGRES names no server")
	}
	ctx := context.Background()
	admin, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(ctx) }()
	role := fmt.Sprintf("pgconnect_%d", os.Getpid())
	if _, err := admin.Exec(ctx, "CREATE ROLE "+role+" LOGIN CONNECTION LIMIT 1"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := admin.Exec(ctx, "DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	}()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	config.User = role
	tries := 0
	connect := func(ctx context.Context) (*pgx.Conn, error) {
		tries++
		return pgx.ConnectConfig(ctx, config)
	}
	first, err := Patiently(ctx, connect)
	if err != nil {
		t.Fatal(err)
	}

	before := patience
	patience = 300 * time.Millisecond
	_, err = Patiently(ctx, connect)
	patience = before
	if err == nil || !strings.Contains(err.Error(), "raise max_connections") || tries < 3 {
		t.Fatalf("%d tries: %v", tries, err)
	}

	tries = 0
	second, err := Patiently(ctx, func(ctx context.Context) (*pgx.Conn, error) {
		if tries == 1 { // it has been refused once
			if err := first.Close(ctx); err != nil {
				t.Error(err)
			}
		}
		return connect(ctx)
	})
	if err != nil || tries < 2 {
		t.Fatalf("%d tries: %v", tries, err)
	}
	if err := second.Close(ctx); err != nil {
		t.Error(err)
	}

	config.Database = "no such database"
	config.User = admin.Config().User // the role's one connection may still be ending
	tries = 0
	if _, err := Patiently(ctx, connect); err == nil || tries != 1 {
		t.Errorf("%d tries: %v", tries, err)
	}
}

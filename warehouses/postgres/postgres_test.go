package postgres

import (
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

func TestFacts(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		w := open(t, Options{URL: address})
		facts, err := w.Facts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := connect(t, w)
		want := warehouses.Facts{Database: c.value("SELECT current_database()"), User: c.value("SELECT session_user"),
			Version:  c.value("SHOW server_version"),
			Identity: "postgres:" + c.value("SELECT system_identifier FROM pg_control_system()") + ":" + c.value("SELECT oid FROM pg_database WHERE datname = current_database()")}
		if facts != want {
			t.Errorf("%+v, want %+v", facts, want)
		}
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.Host = net.JoinHostPort("localhost", u.Port())
		other, err := open(t, Options{URL: u.String()}).Facts(t.Context())
		if err != nil || other != facts {
			t.Errorf("by another name: %+v, %v", other, err)
		}
		u.Path = "/postgres"
		other, err = open(t, Options{URL: u.String()}).Facts(t.Context())
		if err != nil || other.Identity == facts.Identity {
			t.Errorf("another database: %+v, %v", other, err)
		}
	})
}

// TestIdentityWithoutPrivilege: where the user may not read the system identifier, host and port must do.
func TestIdentityWithoutPrivilege(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		admin := connect(t, open(t, Options{URL: address}))
		database := unique("identity")
		admin.exec("CREATE DATABASE " + database)
		admin.after("DROP DATABASE " + database + " WITH (FORCE)")
		role := admin.role()
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.Path = "/" + database
		there := connect(t, open(t, Options{URL: u.String()}))
		there.exec("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
		facts, err := open(t, Options{URL: withUser(t, u.String(), role)}).Facts(t.Context())
		if err != nil || !strings.HasPrefix(facts.Identity, "postgres:"+u.Host+":") || facts.User != role {
			t.Errorf("%+v, %v", facts, err)
		}
	})
}

func TestEncodingWithoutCharacters(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		admin := connect(t, open(t, Options{URL: address}))
		database := unique("ascii")
		admin.exec("CREATE DATABASE " + database + " ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
		admin.after("DROP DATABASE " + database + " WITH (FORCE)")
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.Path = "/" + database
		if _, err := open(t, Options{URL: u.String()}).Facts(t.Context()); !fault.Has(err, fault.ConfigInvalid) {
			t.Error(err)
		}
	})
}

// TestSettings: role and database defaults do not reach the session.
func TestSettings(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		admin := connect(t, open(t, Options{URL: address}))
		role := admin.role()
		for _, s := range []string{"TimeZone = 'America/New_York'", "DateStyle = 'German'", "standard_conforming_strings = off", "statement_timeout = 1",
			"default_transaction_isolation = 'serializable'", "client_encoding = 'LATIN1'"} {
			admin.exec("ALTER ROLE " + role + " SET " + s)
		}
		c := connect(t, open(t, Options{URL: withUser(t, address, role)}))
		for name, want := range map[string]string{"TimeZone": "UTC", "DateStyle": "ISO", "standard_conforming_strings": "on", "statement_timeout": "0",
			"transaction_isolation": "read committed", "client_encoding": "UTF8", "application_name": "etl-craft"} {
			if got, _, _ := strings.Cut(c.value("SELECT current_setting('"+name+"')"), ","); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	})
}

func TestConnectFields(t *testing.T) {
	eachServer(t, func(t *testing.T, address string) {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Host: u.Hostname(), Database: strings.TrimPrefix(u.Path, "/"), User: u.User.Username(), Password: "p%s'w\\d&=", SSLMode: "disable"}
		if o.Port, err = net.LookupPort("tcp", u.Port()); err != nil {
			t.Fatal(err)
		}
		if got := connect(t, open(t, o)).value("SELECT 1"); got != "1" {
			t.Error(got)
		}
	})
}

func TestConnectErrors(t *testing.T) {
	const secret = "pa55word"
	eachServer(t, func(t *testing.T, address string) {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(u.User.Username(), secret)
		missing, role, closed := *u, *u, *u
		missing.Path = "/no_such_database"
		role.User = url.UserPassword("no_such_role", secret)
		closed.Host = "127.0.0.1:1"
		for _, c := range []struct {
			address, want string
			retryable     bool
		}{
			{missing.String(), "InvalidCatalogName: database \"no_such_database\" does not exist", false},
			{role.String(), "InvalidAuthorizationSpecification: role \"no_such_role\" does not exist", false},
			{closed.String(), "connection refused", true},
		} {
			_, err := open(t, Options{URL: c.address}).Session(t.Context())
			e := fault.As(err)
			if !fault.Has(err, fault.WarehouseDown) || !strings.Contains(e.Message, c.want) || e.Retryable != c.retryable || e.Hint == "" {
				t.Errorf("%v (hint %q, retryable %t), want %s", err, e.Hint, e.Retryable, c.want)
			}
			if strings.Contains(err.Error()+e.Hint, secret) {
				t.Errorf("the password is shown: %v", err)
			}
		}
	})
	for _, bad := range []Options{
		{URL: "postgres://etl:" + secret + "@host:port/db"}, {URL: "postgres://etl:" + secret + "@host/db?sslmode=perhaps"}, {Host: "h", Password: secret, SSLMode: "perhaps"},
		{Host: "h", Password: secret, SSLMode: "verify-full", SSLRootCert: "/nowhere/ca.pem"},
	} {
		if _, err := Open(bad); !fault.Has(err, fault.ConfigInvalid) || strings.Contains(err.Error(), secret) {
			t.Error(err)
		}
	}
}

func TestCancelledConnect(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		cancel()
		_, _ = io.Copy(io.Discard, conn)
	}()
	_, err = open(t, Options{URL: "postgres://etl@" + listener.Addr().String() + "/etl"}).Session(ctx)
	if !fault.Has(err, fault.TaskCancelled) {
		t.Error(err)
	}
}

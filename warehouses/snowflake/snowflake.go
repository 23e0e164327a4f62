package snowflake

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/snowflakedb/gosnowflake"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
	_ "github.com/etl-craft/etl-craft/warehouses/snowflake/driverenv" // before the driver
)

// Options say which account to use and how to sign in: with Password, Token or PrivateKeyFile, or as Authenticator says.
type Options struct {
	Account   string // an account identifier; or the URL of an emulator, such as http://127.0.0.1:8085
	User      string
	Database  string
	Schema    string // where scratch tables lie; "" is PUBLIC
	Warehouse string
	Role      string // "" is the user's default role

	Password             string
	Token                string // a programmatic access token; an OAuth token when Authenticator is oauth
	PrivateKeyFile       string
	PrivateKeyPassphrase string
	Authenticator        string

	// DSN is the driver's own form of all that, for tests. Database and Schema replace those that it names.
	DSN string
}

// settings are those of every session, whatever account and user have as defaults.
var settings = map[string]string{
	"TIMEZONE":                         "UTC",
	"TIMESTAMP_TYPE_MAPPING":           "TIMESTAMP_NTZ",
	"TIMESTAMP_INPUT_FORMAT":           "AUTO",
	"DATE_INPUT_FORMAT":                "AUTO",
	"TIME_INPUT_FORMAT":                "AUTO",
	"TIMESTAMP_OUTPUT_FORMAT":          "YYYY-MM-DD HH24:MI:SS.FF9",
	"TIMESTAMP_NTZ_OUTPUT_FORMAT":      "YYYY-MM-DD HH24:MI:SS.FF9",
	"TIMESTAMP_LTZ_OUTPUT_FORMAT":      "YYYY-MM-DD HH24:MI:SS.FF9TZH:TZM",
	"TIMESTAMP_TZ_OUTPUT_FORMAT":       "YYYY-MM-DD HH24:MI:SS.FF9TZH:TZM",
	"DATE_OUTPUT_FORMAT":               "YYYY-MM-DD",
	"TIME_OUTPUT_FORMAT":               "HH24:MI:SS.FF9",
	"BINARY_OUTPUT_FORMAT":             "HEX",
	"AUTOCOMMIT":                       "true",
	"MULTI_STATEMENT_COUNT":            "1",
	"QUOTED_IDENTIFIERS_IGNORE_CASE":   "false",
	"ERROR_ON_NONDETERMINISTIC_MERGE":  "true",
	"ERROR_ON_NONDETERMINISTIC_UPDATE": "true",
	"ABORT_DETACHED_QUERY":             "true", // the server ends what runs when this process is gone
	"CLIENT_SESSION_KEEP_ALIVE":        "true", // a statement may take longer than a session lives without
	"QUERY_TAG":                        "etl-craft",
}

const (
	// noRetry is not 0, for which the driver takes its default. It must not send a write again whose answer was lost.
	noRetry = -1
	// patience is how long what ends a statement or a session may take.
	patience = 30 * time.Second
)

// warehouse gives every session a connection of its own.
type warehouse struct {
	config gosnowflake.Config

	mu    sync.Mutex
	facts *warehouses.Facts
}

var quiet = sync.OnceValue(func() error { return gosnowflake.GetLogger().SetLogLevel("fatal") })

// Open prepares access to the account; the first session connects. Options that cannot be used are CONFIG_INVALID.
func Open(o Options) (warehouses.Warehouse, error) {
	if err := quiet(); err != nil {
		return nil, err
	}
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	config.Application = "etl-craft"
	//lint:ignore SA1019 the session parameter that is to replace it comes into force only after the login
	config.DisableTelemetry = true
	config.MaxRetryCount = noRetry
	return &warehouse{config: *config}, nil
}

// Database is the name of a configured database as Snowflake stores it.
func Database(name string) string {
	if len(name) > 1 && strings.HasPrefix(name, `"`) && strings.HasSuffix(name, `"`) {
		return strings.ReplaceAll(name[1:len(name)-1], `""`, `"`)
	}
	return strings.ToUpper(name)
}

func (o Options) config() (*gosnowflake.Config, error) {
	if o.DSN != "" {
		config, err := gosnowflake.ParseDSN(o.DSN)
		if err != nil {
			return nil, fault.New(fault.ConfigInvalid, "the DSN of the Snowflake warehouse cannot be used") // the error may hold the password
		}
		if o.Database != "" {
			config.Database, config.Schema = o.Database, o.Schema
		}
		return config, nil
	}
	config := &gosnowflake.Config{
		Account: o.Account, User: o.User, Database: o.Database, Schema: o.Schema, Warehouse: o.Warehouse, Role: o.Role,
		Password: o.Password, Token: o.Token,
	}
	if err := o.address(config); err != nil {
		return nil, err
	}
	return config, o.authenticate(config)
}

func (o Options) address(config *gosnowflake.Config) error {
	if !strings.Contains(o.Account, "://") {
		return nil
	}
	u, err := url.Parse(o.Account)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return fault.New(fault.ConfigInvalid, "warehouse.account is neither an account identifier nor the URL of an emulator")
	}
	config.Account, config.Protocol, config.Host = "emulator", u.Scheme, u.Hostname()
	config.Port, _ = strconv.Atoi(u.Port())
	config.ValidateDefaultParameters = gosnowflake.ConfigBoolFalse
	return nil
}

func (o Options) authenticate(config *gosnowflake.Config) error {
	if o.Authenticator != "" {
		parsed, err := gosnowflake.ParseDSN("user:password@account?authenticator=" + url.QueryEscape(o.Authenticator))
		if err != nil {
			return fault.New(fault.ConfigInvalid, "warehouse.authenticator %s is not known", o.Authenticator).
				WithHint("it takes oauth, externalbrowser, username_password_mfa, snowflake_jwt, programmatic_access_token or the URL of Okta")
		}
		config.Authenticator, config.OktaURL = parsed.Authenticator, parsed.OktaURL
		//lint:ignore SA1019 without them each session would ask the user again
		config.ClientStoreTemporaryCredential, config.ClientRequestMfaToken = gosnowflake.ConfigBoolTrue, gosnowflake.ConfigBoolTrue
	}
	switch {
	case o.PrivateKeyFile != "":
		key, err := readPrivateKey(o.PrivateKeyFile, o.PrivateKeyPassphrase)
		if err != nil {
			return fault.New(fault.ConfigInvalid, "the private key %s cannot be used: %w", o.PrivateKeyFile, err)
		}
		config.Authenticator, config.PrivateKey = gosnowflake.AuthTypeJwt, key
	case o.Token != "" && o.Authenticator == "":
		config.Authenticator = gosnowflake.AuthTypePat
	}
	return nil
}

func (w *warehouse) Dialect() *warehouses.Dialect { return Dialect }

func (w *warehouse) Facts(ctx context.Context) (warehouses.Facts, error) {
	w.mu.Lock()
	known := w.facts
	w.mu.Unlock()
	return warehouses.FactsOf(ctx, w, known)
}

func (w *warehouse) Session(ctx context.Context) (warehouses.Session, error) {
	s, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.learn(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// connect signs in. The driver keeps the parameters of a session in the map it was given, so each gets its own, and looks for
// some of them itself, under names in lower case.
func (w *warehouse) connect(ctx context.Context) (*session, error) {
	config := w.config
	config.Params = maps.Clone(w.config.Params)
	if config.Params == nil {
		config.Params = map[string]*string{}
	}
	for name, value := range settings {
		config.Params[strings.ToLower(name)] = &value
	}
	db := sql.OpenDB(gosnowflake.NewConnector(gosnowflake.SnowflakeDriver{}, config))
	conn, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close()
		return nil, w.unreachable(ctx, err)
	}
	return &session{w: w, db: db, conn: conn}, nil
}

// unreachable names account, database and user, never a secret.
func (w *warehouse) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fault.New(fault.TaskCancelled, "connect to Snowflake account %s: %w", w.config.Account, context.Cause(ctx))
	}
	hint, retryable := "check warehouse.account, and that this host reaches Snowflake", true
	if e := serverError(err); e != nil {
		switch {
		case refusesLogin(e):
			hint, retryable = "check user, role and the way to sign in of the warehouse", false
		case e.Number == gosnowflake.ErrObjectNotExistOrAuthorized, e.Number == gosnowflake.ErrRoleNotExist:
			hint, retryable = "check that database, schema, warehouse and role exist and that the user may use them", false
		}
	}
	e := fault.New(fault.WarehouseDown, "no connection to the Snowflake account %s as %s: %s", w.config.Account, w.config.User, w.hide(reason(err))).WithHint("%s", hint)
	e.Retryable = retryable
	return e
}

// hide takes the secrets out of a text that comes from elsewhere.
func (w *warehouse) hide(text string) string {
	for _, secret := range []string{w.config.Password, w.config.Token} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}

// endAll ends what a lost session's statements still do in the server.
func (w *warehouse) endAll(session string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := w.connect(ctx)
	if err != nil {
		return err
	}
	_, err = s.conn.ExecContext(ctx, fmt.Sprintf("SELECT SYSTEM$CANCEL_ALL_QUERIES(%s)", session))
	return errors.Join(err, s.Close())
}

// Close has nothing to close: sessions have connections of their own.
func (w *warehouse) Close() error { return nil }

package config

import (
	"math"
	"slices"
)

// Kind is what the value of a key must be.
type Kind string

// Kinds of values.
const (
	Text    Kind = "text"
	File    Kind = "path"
	URL     Kind = "URL"
	Whole   Kind = "whole number"
	Seconds Kind = "seconds"
	Minutes Kind = "minutes"
	YesNo   Kind = "true or false"
	Choice  Kind = "one of"
	Choices Kind = "list of"
	Block   Kind = "mapping"
)

// Key declares one key of etl-craft.yml. Reading, suggestions, `config show`, the JSON Schema and the reference page
// come from it. A key that differs between types is declared once for each.
type Key struct {
	Section  string   // "", orchestration, notifications.NAME, engine, engine.direct or warehouse
	Name     string   // lower case; the file may write it in any case
	Kind     Kind     // a File may be relative to the project folder or begin with ~/
	Allowed  []string // of a Choice, or of what a Choices lists
	Min, Max int      // of a number; Max 0 is math.MaxInt32, of minutes a 60th
	Default  string   // "" for none
	For      []string // types of engine or warehouse that take it, nil for all; DuckDB over Iceberg is its own type
	Required bool     // postgres does without its required keys when it has url
	Secret   bool     // never shown
	Help     string

	field func(*Config) any // *string, *[]string, *int, *bool or *time.Duration; nil for a Block and what is not kept
}

// most is the greatest value of a number.
func (k Key) most() int {
	switch {
	case k.Max > 0:
		return k.Max
	case k.Kind == Minutes:
		return math.MaxInt32 / 60 // a time.Duration holds no more than 292 years
	}
	return math.MaxInt32
}

// DuckDBIceberg is the type, for Key.For, of a duckdb warehouse with table_format iceberg.
const DuckDBIceberg = "duckdb+iceberg"

var (
	sslModes    = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}
	engineTypes = []string{SQLite, Postgres}
	types       = []string{DuckDB, Postgres, Trino, Snowflake, Databricks}

	orchestration = []Key{
		{Name: "mode", Kind: Choice, Allowed: []string{Local, Remote}, Default: Local, Help: "local: etl-craft decides what runs when; remote: an outside orchestrator owns order and gates", field: func(c *Config) any { return &c.Orchestration.Mode }},
		{Name: "max_parallel_tasks", Kind: Whole, Min: 1, Default: "8", Help: "tasks of a pipeline that run at once", field: func(c *Config) any { return &c.Orchestration.MaxParallelTasks }},
		{Name: "task_timeout_seconds", Kind: Seconds, Default: "21600", Help: "ends an attempt that runs longer; 0 is no limit", field: func(c *Config) any { return &c.Orchestration.TaskTimeout }},
		{Name: "retries", Kind: Whole, Default: "0", Help: "how often a failed attempt is tried again, when its error may pass", field: func(c *Config) any { return &c.Orchestration.Retries }},
		{Name: "log_dir", Kind: File, Default: "logs", Help: "folder of the attempts' logs", field: func(c *Config) any { return &c.Orchestration.LogDir }},
		{Name: "gate_wait_minutes", Kind: Minutes, Default: "60", Help: "how long to wait for an unfinished run of an upstream pipeline", field: func(c *Config) any { return &c.Orchestration.GateWait }},
		{Name: "dependency_gates", Kind: Choice, Allowed: []string{GatesEnforce, GatesWarn, GatesOff}, Default: GatesEnforce, Help: "enforce waits for other pipelines, warn says what does not hold and goes on, off does not look", field: func(c *Config) any { return &c.Orchestration.DependencyGates }},
		{Name: "lock_wait_seconds", Kind: Seconds, Default: "0", Help: "how long to wait for a target's lock, and for a DuckDB file that another process has open; 0 is as long as the task may run", field: func(c *Config) any { return &c.Orchestration.LockWait }},
		{Name: "target_count", Kind: Choice, Allowed: []string{CountExact, CountNone}, Default: CountExact, Help: "none leaves TARGET_COUNT null and saves a scan of large PostgreSQL tables", field: func(c *Config) any { return &c.Orchestration.TargetCount }},
	}

	engine = slices.Concat(
		[]Key{
			{Name: "type", Kind: Choice, Allowed: engineTypes, Default: SQLite, Help: "the Engine DB's database", field: func(c *Config) any { return &c.Engine.Type }},
			{Name: "path", Kind: File, Default: "engine.db", For: []string{SQLite}, Help: "the Engine DB's file", field: func(c *Config) any { return &c.Engine.Path }},
		},
		server(func(c *Config) *Server { return &c.Engine.Server }),
		[]Key{
			{Name: "schema", Kind: Text, Default: "etl_craft", For: []string{Postgres}, Help: "schema of the Engine DB's tables; migrate creates it when it is missing", field: func(c *Config) any { return &c.Engine.Schema }},
			{Name: "direct", Kind: Block, For: []string{Postgres}, Help: "the address for locks and migrations, when the main one is a transaction pooler"},
		},
	)

	direct = []Key{
		{Name: "host", Kind: Text, For: []string{Postgres}, Required: true, Help: "host of the database itself", field: func(c *Config) any { return &c.Engine.Direct.Host }},
		{Name: "port", Kind: Whole, Min: 1, Max: 65535, Default: "5432", For: []string{Postgres}, Help: "port of the database itself", field: func(c *Config) any { return &c.Engine.Direct.Port }},
	}

	warehouse = slices.Concat(
		[]Key{
			{Name: "type", Kind: Choice, Allowed: types, Required: true, Help: "the warehouse's database", field: func(c *Config) any { return &c.Warehouse.Type }},
			{Name: "table_format", Kind: Choice, Allowed: []string{Native, Iceberg}, Default: Native, For: []string{DuckDB, DuckDBIceberg, Snowflake, Databricks}, Help: "format of the tables the engine creates", field: tableFormat},
			{Name: "table_format", Kind: Choice, Allowed: []string{Native}, Default: Native, For: []string{Postgres}, Help: "format of the tables the engine creates", field: tableFormat},
			{Name: "table_format", Kind: Choice, Allowed: []string{Iceberg}, Default: Iceberg, For: []string{Trino}, Help: "format of the tables the engine creates", field: tableFormat},
			{Name: "create_schemas", Kind: YesNo, Default: "false", Help: "lets CREATE_TABLE and SETUP_TABLE create a missing schema of their target", field: func(c *Config) any { return &c.Warehouse.CreateSchemas }},

			{Name: "path", Kind: File, For: []string{DuckDB}, Required: true, Help: "the DuckDB file", field: func(c *Config) any { return &c.Warehouse.Path }},
			{Name: "threads", Kind: Whole, Min: 1, For: []string{DuckDB, DuckDBIceberg}, Help: "threads DuckDB may use, for each task with table_format iceberg; without it all cores", field: func(c *Config) any { return &c.Warehouse.Threads }},
			{Name: "memory_limit", Kind: Text, For: []string{DuckDB, DuckDBIceberg}, Help: "memory DuckDB may use, such as 4GB, for each task with table_format iceberg; without it DuckDB's own limit", field: func(c *Config) any { return &c.Warehouse.MemoryLimit }},
		},
		server(func(c *Config) *Server { return &c.Warehouse.Server }),
		trino, snowflake, databricks, duckDBIceberg,
	)

	trino = forType(Trino,
		Key{Name: "host", Kind: Text, Required: true, Help: "host of the coordinator", field: func(c *Config) any { return &c.Warehouse.Host }},
		Key{Name: "port", Kind: Whole, Min: 1, Max: 65535, Default: "8080", Help: "port of the coordinator", field: func(c *Config) any { return &c.Warehouse.Port }},
		Key{Name: "catalog", Kind: Text, Required: true, Help: "an Iceberg catalog", field: catalog},
		Key{Name: "schema", Kind: Text, Help: "default schema of the session", field: schema},
		Key{Name: "user", Kind: Text, Required: true, Help: "user to connect as", field: func(c *Config) any { return &c.Warehouse.User }},
		Key{Name: "password", Kind: Text, Secret: true, Help: "password of the user", field: func(c *Config) any { return &c.Warehouse.Password }},
		Key{Name: "access_token", Kind: Text, Secret: true, Help: "JSON Web Token, instead of a password", field: func(c *Config) any { return &c.Warehouse.AccessToken }},
		Key{Name: "tls", Kind: YesNo, Default: "false", Help: "connect by https", field: func(c *Config) any { return &c.Warehouse.TLS }},
	)

	snowflake = forType(Snowflake,
		Key{Name: "account", Kind: Text, Required: true, Help: "account identifier, such as org-account", field: func(c *Config) any { return &c.Warehouse.Account }},
		Key{Name: "user", Kind: Text, Required: true, Help: "user to connect as", field: func(c *Config) any { return &c.Warehouse.User }},
		Key{Name: "database", Kind: Text, Required: true, Help: "database of two-part target names", field: func(c *Config) any { return &c.Warehouse.Database }},
		Key{Name: "schema", Kind: Text, Help: "default schema of the session", field: schema},
		Key{Name: "warehouse", Kind: Text, Required: true, Help: "virtual warehouse that runs the statements", field: compute},
		Key{Name: "role", Kind: Text, Help: "role to take; without it the user's default role", field: func(c *Config) any { return &c.Warehouse.Role }},
		Key{Name: "password", Kind: Text, Secret: true, Help: "password of the user", field: func(c *Config) any { return &c.Warehouse.Password }},
		Key{Name: "token", Kind: Text, Secret: true, Help: "programmatic access token or OAuth token", field: token},
		Key{Name: "private_key_file", Kind: File, Help: "private key of the user, in PEM form", field: func(c *Config) any { return &c.Warehouse.PrivateKeyFile }},
		Key{Name: "private_key_passphrase", Kind: Text, Secret: true, Help: "passphrase of private_key_file", field: func(c *Config) any { return &c.Warehouse.PrivateKeyPassphrase }},
		Key{Name: "authenticator", Kind: Text, Help: "another way to sign in, such as externalbrowser", field: func(c *Config) any { return &c.Warehouse.Authenticator }},
	)

	databricks = forType(Databricks,
		Key{Name: "host", Kind: Text, Required: true, Help: "host of the workspace", field: func(c *Config) any { return &c.Warehouse.Host }},
		Key{Name: "http_path", Kind: Text, Required: true, Help: "HTTP path of the SQL warehouse", field: func(c *Config) any { return &c.Warehouse.HTTPPath }},
		Key{Name: "catalog", Kind: Text, Required: true, Help: "catalog of two-part target names", field: catalog},
		Key{Name: "schema", Kind: Text, Help: "default schema of the session", field: schema},
		Key{Name: "token", Kind: Text, Secret: true, Help: "personal access token", field: token},
		Key{Name: "client_id", Kind: Text, Help: "id of a service principal", field: clientID},
		Key{Name: "client_secret", Kind: Text, Secret: true, Help: "secret of the service principal", field: clientSecret},
	)

	duckDBIceberg = forType(DuckDBIceberg,
		Key{Name: "catalog_uri", Kind: URL, Required: true, Help: "address of the Iceberg REST catalog", field: func(c *Config) any { return &c.Warehouse.CatalogURI }},
		Key{Name: "warehouse", Kind: Text, Required: true, Help: "warehouse of the REST catalog", field: compute},
		Key{Name: "catalog", Kind: Text, Required: true, Help: "name of the catalog in SQL, the database of two-part target names", field: catalog},
		Key{Name: "token", Kind: Text, Secret: true, Help: "bearer token for the REST catalog", field: token},
		Key{Name: "client_id", Kind: Text, Help: "OAuth2 client for the REST catalog, instead of token", field: clientID},
		Key{Name: "client_secret", Kind: Text, Secret: true, Help: "secret of client_id", field: clientSecret},
		Key{Name: "token_url", Kind: URL, Help: "where client_id gets its token; without it the REST catalog's own address", field: func(c *Config) any { return &c.Warehouse.TokenURL }},
		Key{Name: "s3_endpoint", Kind: Text, Help: "host and port of the object store, when it is not AWS", field: func(c *Config) any { return &c.Warehouse.S3Endpoint }},
		Key{Name: "s3_region", Kind: Text, Help: "region of the object store", field: func(c *Config) any { return &c.Warehouse.S3Region }},
		Key{Name: "s3_url_style", Kind: Choice, Allowed: []string{"vhost", "path"}, Default: "vhost", Help: "how buckets are addressed", field: func(c *Config) any { return &c.Warehouse.S3URLStyle }},
		Key{Name: "s3_use_ssl", Kind: YesNo, Default: "true", Help: "reach the object store by https", field: func(c *Config) any { return &c.Warehouse.S3UseSSL }},
		Key{Name: "s3_key_id", Kind: Text, Help: "access key of the object store; without it AWS's usual places are searched", field: func(c *Config) any { return &c.Warehouse.S3KeyID }},
		Key{Name: "s3_secret", Kind: Text, Secret: true, Help: "secret of s3_key_id", field: func(c *Config) any { return &c.Warehouse.S3Secret }},
		Key{Name: "extension_dir", Kind: File, Help: "folder with DuckDB's extensions, for hosts without access to the internet", field: func(c *Config) any { return &c.Warehouse.ExtensionDir }},
	)

	webhook = []Key{
		{Name: "url", Kind: URL, Required: true, Secret: true, Help: "where to POST to, http or https", field: func(c *Config) any { return &c.newest().URL }},
		{Name: "secret", Kind: Text, Required: true, Secret: true, Help: "key of the signature: any text, or whsec_ and Base64", field: func(c *Config) any { return &c.newest().Secret }},
		{Name: "on", Kind: Choices, Allowed: Events, Default: "FAILED, CANCELLED, SLA_BREACHED", Help: "what to tell of; a pipeline may say otherwise for itself", field: func(c *Config) any { return &c.newest().On }},
		{Name: "timeout_seconds", Kind: Seconds, Min: 1, Max: 60, Default: "10", Help: "how long to wait for an answer", field: func(c *Config) any { return &c.newest().Timeout }},
	}

	top = []Key{
		{Name: "profile", Kind: Text, Help: "which profile, unless --profile or $ETL_CRAFT_PROFILE says another; a lone one needs none"},
		{Name: "env_file", Kind: File, Help: "a file of NAME=value lines for ${NAME}; variables of the process win", field: func(c *Config) any { return &c.EnvFile }},
		{Name: "orchestration", Kind: Block, Help: "how runs behave, for every profile"},
		{Name: "notifications", Kind: Block, Help: "webhooks, by name, that are told how runs end"},
		{Name: "profiles", Kind: Block, Required: true, Help: "the environments, by name"},
	}

	profile = []Key{
		{Name: "orchestration", Kind: Block, Help: "what differs from the shared orchestration"},
		{Name: "notifications", Kind: Block, Help: "webhooks of this profile only, and those that differ from the shared one of the same name"},
		{Name: "engine", Kind: Block, Help: "the Engine DB: pipelines, runs and their history"},
		{Name: "warehouse", Kind: Block, Required: true, Help: "the database that tasks read and write"},
	}

	sections = map[string][]Key{
		"": top, "profiles.NAME": profile, "orchestration": orchestration, "notifications.NAME": webhook,
		"engine": engine, "engine.direct": direct, "warehouse": warehouse,
	}
	sectionOrder = []string{"", "profiles.NAME", "orchestration", "notifications.NAME", "engine", "engine.direct", "warehouse"}
)

func tableFormat(c *Config) any  { return &c.Warehouse.TableFormat }
func catalog(c *Config) any      { return &c.Warehouse.Catalog }
func schema(c *Config) any       { return &c.Warehouse.Schema }
func compute(c *Config) any      { return &c.Warehouse.Warehouse }
func token(c *Config) any        { return &c.Warehouse.Token }
func clientID(c *Config) any     { return &c.Warehouse.ClientID }
func clientSecret(c *Config) any { return &c.Warehouse.ClientSecret }

// server is the address of a PostgreSQL database, the same for the Engine DB and the warehouse.
func server(at func(*Config) *Server) []Key {
	return forType(Postgres,
		Key{Name: "url", Kind: URL, Help: "postgres://user:password@host:port/database, instead of the keys below", field: func(c *Config) any { return &at(c).URL }},
		Key{Name: "host", Kind: Text, Required: true, Help: "host, or folder of the Unix socket", field: func(c *Config) any { return &at(c).Host }},
		Key{Name: "port", Kind: Whole, Min: 1, Max: 65535, Default: "5432", Help: "port", field: func(c *Config) any { return &at(c).Port }},
		Key{Name: "database", Kind: Text, Required: true, Help: "name of the database", field: func(c *Config) any { return &at(c).Database }},
		Key{Name: "user", Kind: Text, Required: true, Help: "user to connect as", field: func(c *Config) any { return &at(c).User }},
		Key{Name: "password", Kind: Text, Secret: true, Help: "password of the user", field: func(c *Config) any { return &at(c).Password }},
		Key{Name: "sslmode", Kind: Choice, Allowed: sslModes, Default: "prefer", Help: "how TLS is used and checked", field: func(c *Config) any { return &at(c).SSLMode }},
		Key{Name: "sslrootcert", Kind: File, Help: "certificates that the server's is checked against", field: func(c *Config) any { return &at(c).SSLRootCert }},
		Key{Name: "sslcert", Kind: File, Help: "client certificate", field: func(c *Config) any { return &at(c).SSLCert }},
		Key{Name: "sslkey", Kind: File, Help: "key of sslcert", field: func(c *Config) any { return &at(c).SSLKey }},
	)
}

func forType(name string, keys ...Key) []Key {
	for i := range keys {
		keys[i].For = []string{name}
	}
	return keys
}

// Keys lists every key in the order of the reference.
func Keys() []Key {
	var keys []Key
	for _, section := range sectionOrder {
		for _, k := range sections[section] {
			k.Section = section
			keys = append(keys, k)
		}
	}
	return keys
}

func (k Key) takes(variant string) bool { return k.For == nil || slices.Contains(k.For, variant) }

// names lists the distinct names of keys that a type takes; of all keys when variant is "".
func names(keys []Key, variant string) []string {
	var out []string
	for _, k := range keys {
		if (variant == "" || k.takes(variant)) && !slices.Contains(out, k.Name) {
			out = append(out, k.Name)
		}
	}
	return out
}

// find returns the key as declared for a type.
func find(keys []Key, name, variant string) (Key, bool) {
	for _, k := range keys {
		if k.Name == name && k.takes(variant) {
			return k, true
		}
	}
	return Key{}, false
}

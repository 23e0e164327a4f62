// Package config reads etl-craft.yml: it finds the file, checks every key of it and resolves one profile. It opens
// nothing: whether a server answers is seen by those who connect.
package config

import "time"

// Config is the resolved configuration: one profile, variables replaced, defaults filled in, paths absolute.
type Config struct {
	File     string // absolute path of etl-craft.yml
	Dir      string // the project folder, which holds File
	Profile  string // as written in the file
	Profiles int    // how many the file has
	EnvFile  string // absolute; "" when the file names none
	// PlainSecrets tells that File itself holds a secret of the profile, where a variable could.
	PlainSecrets bool

	Orchestration Orchestration
	Notifications []Webhook // by name
	Engine        Engine
	Warehouse     Warehouse
}

// Events are what webhooks can be told of: how a run ended, or that it has taken longer than its SLA.
var Events = []string{"SUCCESS", "FAILED", "SKIPPED", "CANCELLED", "SLA_BREACHED"}

// Webhook is told how runs end.
type Webhook struct {
	Name    string
	URL     string // secret: it may hold a token
	Secret  string
	On      []string // of Events
	Timeout time.Duration
}

// newest is the webhook that is being read or shown.
func (c *Config) newest() *Webhook { return &c.Notifications[len(c.Notifications)-1] }

// Orchestration modes and ways to count targets.
const (
	Local  = "local"
	Remote = "remote"

	CountExact = "exact"
	CountNone  = "none"

	GatesEnforce = "enforce"
	GatesWarn    = "warn"
	GatesOff     = "off"
)

// Orchestration is how runs behave.
type Orchestration struct {
	Mode             string        // Local or Remote
	MaxParallelTasks int           // at least 1
	TaskTimeout      time.Duration // 0 is none
	Retries          int
	LogDir           string // absolute
	GateWait         time.Duration
	DependencyGates  string        // GatesEnforce, GatesWarn or GatesOff
	LockWait         time.Duration // 0 is as long as the task may run
	TargetCount      string        // CountExact or CountNone
}

// Types of Engine DBs and warehouses.
const (
	SQLite     = "sqlite"
	Postgres   = "postgres"
	DuckDB     = "duckdb"
	Trino      = "trino"
	Snowflake  = "snowflake"
	Databricks = "databricks"

	Native  = "native"
	Iceberg = "iceberg"
)

// Server says how to reach a PostgreSQL database: by URL, or by the other fields.
type Server struct {
	URL         string // secret: it may hold a password
	Host        string
	Port        int
	Database    string
	User        string
	Password    string
	SSLMode     string // as PostgreSQL's sslmode
	SSLRootCert string // paths are absolute
	SSLCert     string
	SSLKey      string
}

// Engine is where the Engine DB lives.
type Engine struct {
	Type   string // SQLite or Postgres
	Path   string // of SQLite, absolute
	Server        // of Postgres, and the next two
	Schema string
	Direct Direct
}

// Direct is the address for locks and migrations when the main one is a transaction pooler. Host is "" without one.
type Direct struct {
	Host string
	Port int
}

// Warehouse is the database that tasks read and write.
type Warehouse struct {
	Type          string // Postgres, DuckDB, Trino, Snowflake or Databricks
	TableFormat   string // Native or Iceberg
	CreateSchemas bool   // CREATE_TABLE and SETUP_TABLE may create the schema of their target

	Path        string // of DuckDB, absolute
	Threads     int    // of DuckDB, 0 is its own choice
	MemoryLimit string // of DuckDB, such as 4GB

	Server         // of Postgres; Trino uses Host, Port, User and Password, Snowflake Database, User and Password, Databricks Host
	Catalog string // of Trino, Databricks and DuckDB over Iceberg
	Schema  string // of Trino, Snowflake and Databricks
	Token   string // of Snowflake, Databricks and DuckDB over Iceberg

	AccessToken string // of Trino
	TLS         bool   // of Trino

	Account              string // of Snowflake
	Warehouse            string // of Snowflake: its compute; of DuckDB over Iceberg: the warehouse of the catalog
	Role                 string
	PrivateKeyFile       string // absolute
	PrivateKeyPassphrase string
	Authenticator        string

	HTTPPath     string // of Databricks
	ClientID     string // of Databricks and DuckDB over Iceberg
	ClientSecret string

	CatalogURI   string // of DuckDB over Iceberg, and the following ones
	TokenURL     string
	S3Endpoint   string
	S3Region     string
	S3URLStyle   string
	S3UseSSL     bool
	S3KeyID      string
	S3Secret     string
	ExtensionDir string // absolute
}

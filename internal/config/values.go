package config

import (
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/internal/config/yamlfile"
	"github.com/etl-craft/etl-craft/internal/nearest"
)

var (
	schemaName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)
	digits     = regexp.MustCompile(`^[0-9]+$`)
)

func (l *loader) engine(b, address block) {
	e := &l.config.Engine
	if !l.variant(b, engine, SQLite, &e.Type) {
		return
	}
	l.values(b, engine, e.Type, &e.Server)
	if e.Schema != "" && !schemaName.MatchString(e.Schema) {
		l.failAt(b, "schema", "use letters, digits and _, at most 63", "%s.schema is not a plain name", b.what)
	}
	l.refuseMemory(b, e.Path)
	if _, ok := b.fields["direct"]; ok && e.Type == Postgres {
		l.values(address, direct, Postgres, nil)
	}
}

func (l *loader) warehouse(b block, given bool) {
	w := &l.config.Warehouse
	if !given {
		l.Failf(b.at, "add warehouse: { type: duckdb, path: warehouse.duckdb }", "%s is missing", b.what)
		return
	}
	if !l.variant(b, warehouse, "", &w.Type) {
		return
	}
	l.values(b, warehouse, l.warehouseVariant(b, w.Type), &w.Server)
	l.refuseMemory(b, w.Path)
	l.credentials(b, w.Type)
	l.together(b, "client_id", "client_secret")
	l.together(b, "s3_key_id", "s3_secret")
	l.needs(b, "private_key_passphrase", "private_key_file")
}

// variant reads the type, on which every other key depends.
func (l *loader) variant(b block, keys []Key, otherwise string, to *string) bool {
	key, _ := find(keys, "type", "")
	field, ok := b.fields["type"]
	if !ok {
		if otherwise == "" {
			l.Failf(b.at, "one of "+strings.Join(key.Allowed, ", "), "%s.type is missing", b.what)
		}
		*to = otherwise
		return otherwise != ""
	}
	return l.set(key, b.what, field)
}

// warehouseVariant is the type, or DuckDBIceberg. A table_format that cannot be read is reported later.
func (l *loader) warehouseVariant(b block, name string) string {
	field, ok := b.fields["table_format"]
	if name != DuckDB || !ok {
		return name
	}
	if format, _, _ := expand(field.Value.Value, l.lookup); strings.EqualFold(format, Iceberg) {
		return DuckDBIceberg
	}
	return name
}

// values reads every key of a block except its type, and says which ones do not belong or are missing.
func (l *loader) values(b block, keys []Key, variant string, server *Server) {
	_, byURL := b.fields["url"]
	byURL = byURL && server != nil && variant == Postgres
	for _, name := range names(keys, "") {
		field, written := b.fields[name]
		key, applies := find(keys, name, variant)
		inURL := byURL && applies && isServerKey(name)
		switch {
		case name == "type" || applies && key.Kind == Block:
		case written && !applies:
			l.Failf(field.Key, "it takes "+strings.Join(names(keys, variant), ", "), "%s.%s does not apply to %s", b.what, name, spoken(variant))
		case written && inURL:
			l.Failf(field.Key, "put it into url, or remove url", "%s.%s and url are both set", b.what, name)
		case written:
			l.set(key, b.what, field)
		case !applies || inURL:
		case key.Required:
			l.Failf(b.at, "add "+name+": "+key.Help, "%s.%s is missing", b.what, name)
		default:
			l.fill(key)
		}
	}
	if server == nil {
		return
	}
	if byURL && server.URL != "" {
		l.serverURL(b, server)
	}
	l.together(b, "sslcert", "sslkey")
}

// serverURL checks a PostgreSQL URL and makes the paths in it absolute. The URL is not shown: it may hold a password.
func (l *loader) serverURL(b block, server *Server) {
	u, err := url.Parse(server.URL)
	switch {
	case err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql":
		l.failAt(b, "url", "postgres://user@host:port/database; write special characters as %XX", "%s.url is not a PostgreSQL URL", b.what)
		return
	case strings.Trim(u.Path, "/") == "":
		l.failAt(b, "url", "postgres://user@host:port/database", "%s.url names no database", b.what)
		return
	}
	query := u.Query()
	changed := false
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		if path := query.Get(name); path != "" && !filepath.IsAbs(path) && path != "system" {
			query.Set(name, l.path(path))
			changed = true
		}
	}
	if changed {
		u.RawQuery = query.Encode()
		server.URL = u.String()
	}
}

// signIn lists, for each type, the keys of which exactly one, or at most one, says how to sign in.
var signIn = map[string]struct {
	keys     []string
	required bool
}{
	Snowflake:  {[]string{"password", "token", "private_key_file", "authenticator"}, true},
	Databricks: {[]string{"token", "client_id"}, true},
	Trino:      {[]string{"password", "access_token"}, false},
	DuckDB:     {[]string{"token", "client_id"}, false},
}

func (l *loader) credentials(b block, name string) {
	way, ok := signIn[name]
	if !ok {
		return
	}
	var set []string
	for _, key := range way.keys {
		if _, ok := b.fields[key]; ok {
			set = append(set, key)
		}
	}
	if len(set) > 1 {
		l.failAt(b, set[1], "keep one of them", "%s has both %s", b.what, strings.Join(set, " and "))
	}
	if len(set) == 0 && way.required {
		l.Failf(b.at, "set one of "+strings.Join(way.keys, ", "), "%s does not say how to sign in", b.what)
	}
}

// together wants two keys both or neither.
func (l *loader) together(b block, one, other string) {
	l.needs(b, one, other)
	l.needs(b, other, one)
}

// needs reports a key that means nothing without another one.
func (l *loader) needs(b block, key, other string) {
	_, set := b.fields[key]
	_, otherSet := b.fields[other]
	if set && !otherSet {
		l.failAt(b, key, "set "+other+" too", "%s.%s is set without %s", b.what, key, other)
	}
}

// refuseMemory keeps databases that vanish with the process out: tasks and commands are processes of their own.
func (l *loader) refuseMemory(b block, path string) {
	if strings.HasPrefix(strings.ToLower(filepath.Base(path)), ":memory:") {
		l.failAt(b, "path", "name a file", "%s.path is :memory:, whose tables would be gone when the command ends", b.what)
	}
}

// failAt reports a problem of a key's value.
func (l *loader) failAt(b block, name, hint, format string, args ...any) {
	at := b.at
	if field, ok := b.fields[name]; ok {
		at = field.Value
	}
	l.Failf(at, hint, format, args...)
}

// set gives the key's field the value that is written, false when it cannot. Messages show what is written, never what
// a variable holds.
func (l *loader) set(key Key, what string, field yamlfile.Field) bool {
	what += "." + key.Name
	if key.Kind == Choices {
		return l.list(key, what, field, key.field(l.config).(*[]string))
	}
	value, ok := l.text(field, what)
	if !ok {
		return false
	}
	if written := field.Value.Value; strings.Contains(key.mask(written), masked) && !strings.Contains(written, "${") {
		l.config.PlainSecrets = true
	}
	want := l.assign(key, value)
	if want == "" && (key.Required || key.Kind == File && key.Default != "") && l.isEmpty(key) {
		l.Failf(field.Value, "write "+key.Name+": "+key.Help, "%s is empty", what)
		return false
	}
	if want == "" {
		return true
	}
	if key.Secret || key.Kind == URL {
		l.Failf(field.Value, "it takes "+want, "%s cannot be used", what)
		return false
	}
	l.Failf(field.Value, "it takes "+want, "%s is %q", what, field.Value.Value)
	return false
}

// fill gives the key's field its default.
func (l *loader) fill(key Key) {
	if key.Default != "" {
		l.assign(key, key.Default)
	}
}

// assign says what the key takes when value is not that, "" when it was assigned.
func (l *loader) assign(key Key, value string) (want string) {
	switch to := key.field(l.config).(type) {
	case *string:
		return l.assignText(key, value, to)
	case *[]string: // a default
		*to = strings.Split(value, ", ")
	case *bool:
		switch strings.ToLower(value) {
		case "true":
			*to = true
		case "false":
			*to = false
		default:
			return "true or false"
		}
	case *int:
		n, want := number(key, value)
		*to = n
		return want
	case *time.Duration:
		n, want := number(key, value)
		unit := time.Second
		if key.Kind == Minutes {
			unit = time.Minute
		}
		*to = time.Duration(n) * unit
		return want
	}
	return ""
}

func (l *loader) assignText(key Key, value string, to *string) (want string) {
	switch key.Kind {
	case Choice:
		value = strings.ToLower(value)
		if !slices.Contains(key.Allowed, value) {
			want = strings.Join(key.Allowed, ", ")
			if near := nearest.Of(value, key.Allowed); near != "" && len(key.Allowed) > 1 {
				want += "; did you mean " + near + "?"
			}
			return want
		}
	case File:
		if value != "" {
			value = l.path(value)
		}
	case URL:
		if u, err := url.Parse(value); err != nil || u.Scheme == "" {
			return "a URL; write special characters in it as %XX"
		}
	}
	*to = value
	return ""
}

func number(key Key, value string) (n int, want string) {
	most := key.most()
	n, err := strconv.Atoi(value)
	if err == nil && digits.MatchString(value) && n >= key.Min && n <= most {
		return n, ""
	}
	return 0, "a whole number from " + strconv.Itoa(key.Min) + " to " + strconv.Itoa(most)
}

func (l *loader) isEmpty(key Key) bool {
	text, ok := key.field(l.config).(*string)
	return ok && *text == ""
}

var serverKeys = func() []string {
	all := names(server(func(c *Config) *Server { return &c.Engine.Server }), Postgres)
	return slices.DeleteFunc(all, func(name string) bool { return name == "url" })
}()

func isServerKey(name string) bool { return slices.Contains(serverKeys, name) }

func spoken(variant string) string {
	if variant == DuckDBIceberg {
		return "duckdb with table_format iceberg"
	}
	return variant
}

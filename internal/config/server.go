package config

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// ConnString is the server for a PostgreSQL driver: the URL, or name=value pairs. It holds the password.
func (s *Server) ConnString() string {
	if s.URL != "" {
		return s.URL
	}
	var b strings.Builder
	add := func(name, value string) {
		if value == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(name + "='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'")
	}
	add("host", s.Host)
	if s.Port != 0 {
		add("port", strconv.Itoa(s.Port))
	}
	add("dbname", s.Database)
	add("user", s.User)
	add("password", s.Password)
	add("sslmode", s.SSLMode)
	add("sslrootcert", s.SSLRootCert)
	add("sslcert", s.SSLCert)
	add("sslkey", s.SSLKey)
	return b.String()
}

// DatabaseName is the database that the URL, or the key, names.
func (s *Server) DatabaseName() string {
	if s.URL == "" {
		return s.Database
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return "" // a loaded configuration holds no such URL
	}
	return strings.Trim(u.Path, "/")
}

// DirectConnString is ConnString with the address of engine.direct, for what a transaction pooler cannot carry.
func (e *Engine) DirectConnString() string {
	if e.Direct.Host == "" {
		return e.ConnString()
	}
	direct := e.Server
	if direct.URL == "" {
		direct.Host, direct.Port = e.Direct.Host, e.Direct.Port
		return direct.ConnString()
	}
	u, err := url.Parse(direct.URL)
	if err != nil {
		return direct.URL // a loaded configuration holds no such URL
	}
	query := u.Query()
	query.Del("host")
	query.Del("port")
	if strings.HasPrefix(e.Direct.Host, "/") {
		// A socket's folder cannot stand where a URL has its host.
		u.Host = ""
		query.Set("host", e.Direct.Host)
		query.Set("port", strconv.Itoa(e.Direct.Port))
	} else {
		u.Host = net.JoinHostPort(e.Direct.Host, strconv.Itoa(e.Direct.Port))
	}
	u.RawQuery = query.Encode()
	return u.String()
}

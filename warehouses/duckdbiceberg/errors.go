package duckdbiceberg

import (
	"context"
	"regexp"
	"strings"

	driverduckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// What a catalog or an object store has answered is in DuckDB's errors as text only: "(Conflict_409)", "response code
// Forbidden_403", "Request returned HTTP 503", "status NotFound_404", "(HTTP code 403)", "(HTTP 400)".
var (
	status   = regexp.MustCompile(`(?:[A-Za-z]_|HTTP (?:code )?)([1-5]\d\d)\b`)
	noAnswer = regexp.MustCompile(`Could not (?:connect|resolve|establish)|Couldn't (?:connect|resolve)`)
)

// answered is the status in an error, "" when there was no answer.
func answered(text string) string {
	m := status.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return m[1]
}

// refused reports whether the catalog does not know this user, or cannot be asked.
func refused(err error) bool {
	code := answered(err.Error())
	return code == "401" || fault.Has(err, fault.WarehouseDown)
}

// classify gives DuckDB's errors their codes. A commit that another writer was faster than is done again; so may be what a
// server was not there for.
func (s *session) classify(from *driverduckdb.Error, to *fault.Error) {
	code := answered(from.Msg)
	commit := strings.Contains(from.Msg, "Failed to commit")
	switch {
	case commit && (code == "409" || strings.Contains(from.Msg, "CommitFailedException")):
		to.Code, to.Retryable = fault.WriteConflict, true
	case commit && (code == "" || passes(code)), from.Type == driverduckdb.ErrorTypeHTTP && (code == "" || passes(code)), noAnswer.MatchString(from.Msg):
		to.Code, to.Retryable = fault.WarehouseDown, true
	case from.Type == driverduckdb.ErrorTypeCatalog && strings.Contains(from.Msg, "chema"):
		s.in.retired = true // it would not see the schema when somebody makes it
	}
	if code != "" && to.Code != fault.WriteConflict {
		to.Hint = hints[code]
	}
	if reason := reasonOf(from.Msg); reason != "" {
		to.Message = strings.TrimSuffix(to.Message, ".") + ": " + reason
	}
}

// passes reports whether a server that answered so may answer otherwise later.
func passes(code string) bool {
	return code[0] == '5' || code == "408" || code == "419" || code == "429"
}

// neverSent reports whether a failed commit had not reached the catalog.
func neverSent(text string) bool {
	return noAnswer.MatchString(text) || strings.Contains(text, "s3://")
}

// reasonOf is what a catalog says in the lines below DuckDB's first one.
func reasonOf(text string) string {
	for line := range strings.Lines(text) {
		if reason, ok := strings.CutPrefix(strings.TrimSpace(line), "message: "); ok {
			return reason
		}
	}
	return ""
}

var hints = map[string]string{
	"401": "look at warehouse.token, or at client_id, client_secret and token_url",
	"403": "look at what the catalog and the object store allow this user, and at warehouse.s3_key_id and s3_secret",
}

// unreachable is an error of setting up a connection. Its text may hold a statement with secrets.
func (w *warehouse) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	text := w.options.hushed(err.Error())
	line, _, _ := strings.Cut(text, "\n")
	hint, retryable := "look at warehouse: in etl-craft config show", false
	code := answered(text)
	switch {
	case strings.Contains(text, "xtension") && !strings.Contains(text, "endpoint"):
		hint = w.options.extensionHint(text)
	case code == "401" || code == "403" || strings.Contains(text, "OAuth2 token request failed"):
		hint = hints["401"]
	case code == "404":
		hint = "look at warehouse.catalog_uri and warehouse.warehouse"
	case noAnswer.MatchString(text):
		hint, retryable = "look at warehouse.catalog_uri and token_url, and whether the catalog is up", true
	case code != "" && passes(code):
		retryable = true
	}
	e := fault.New(fault.WarehouseDown, "the Iceberg catalog %s cannot be used: %s", w.options.CatalogURI, strings.TrimSpace(line)).WithHint("%s", hint)
	e.Retryable = retryable
	return e
}

var versionText = regexp.MustCompile(`v\d+\.\d+\.\d+`)

// extensionHint says where extensions have to be, which is in the error.
func (o Options) extensionHint(text string) string {
	version := "the same version"
	if v := versionText.FindAllString(text, -1); len(v) > 0 {
		version = "DuckDB " + v[len(v)-1]
	}
	needed := "httpfs, iceberg and avro"
	if o.S3KeyID == "" {
		needed = "httpfs, iceberg, avro and, as s3_key_id is not set, aws"
	}
	if o.ExtensionDir == "" {
		return "run INSTALL for " + needed + " in the duckdb program of " + version + ", or set warehouse.extension_dir to a folder that holds them"
	}
	return "put " + needed + " of " + version + " into " + o.ExtensionDir + ", below its version and platform"
}

// hushed is a text without the secrets of the configuration.
func (o Options) hushed(text string) string {
	for _, secret := range []string{o.Token, o.ClientSecret, o.S3Secret} {
		if secret == "" {
			continue
		}
		for _, written := range []string{secret, strings.ReplaceAll(secret, "'", "''")} {
			text = strings.ReplaceAll(text, written, "***")
		}
	}
	return text
}

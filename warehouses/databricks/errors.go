package databricks

import (
	"context"
	"errors"
	"regexp"
	"strings"

	dbsqlerr "github.com/databricks/databricks-sql-go/errors"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// SQLSTATEs that this package acts on.
const (
	syntaxError      = "42601"
	undefinedObject  = "42704"
	undefinedTable   = "42P01"
	identityWritten  = "42808"
	metadataChanged  = "KD007" // the table's columns changed between analysis and execution
	tooManyConflicts = "40000" // the server tried to commit again and again
)

// conflicts is the SQLSTATE of Delta's ConcurrentAppend, ConcurrentDeleteRead, ConcurrentDeleteDelete, ConcurrentWrite,
// ConcurrentTransaction, MetadataChanged and ProtocolChanged exceptions: the statement has changed nothing.
const conflicts = "2D521"

// sqlState is the server's code, "" where it gives none.
func sqlState(err error) string {
	var e dbsqlerr.DBExecutionError
	if errors.As(err, &e) {
		return e.SqlState()
	}
	return ""
}

// failed turns an error of the driver into one with a code.
func (s *session) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		e := fault.New(fault.TaskCancelled, "the statement was cancelled: %w", context.Cause(ctx))
		if s.lost {
			e.Message += "; the server did not answer, so it may still run there"
		}
		return e
	}
	state := sqlState(err)
	if state == "" && errors.Is(err, dbsqlerr.RequestError) || isBadConn(err) {
		s.spoiled = true
		e := fault.New(fault.WarehouseDown, "the connection to Databricks was lost: %s", message(err))
		e.Err, e.Retryable = err, !refused(err)
		return e
	}
	e := &fault.Error{Code: fault.StatementFailed, Message: message(err), Retryable: retryable(state), Err: err}
	if strings.HasPrefix(e.Message, "DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT") {
		e.Hint = "the table needs a feature that older programs cannot read, so that is yours to decide: ALTER TABLE … SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')"
	}
	if state == conflicts || state == tooManyConflicts || state == metadataChanged {
		e.Code, e.Retryable = fault.WriteConflict, true
	}
	return e
}

// retryable: connection trouble, rollbacks by the server, lack of resources, interruption by an operator.
func retryable(state string) bool {
	if len(state) != 5 {
		return false
	}
	switch state[:2] {
	case "08", "40", "53", "57":
		return true
	}
	return false
}

// refused reports whether the server does not let the user in. Of that the driver gives nothing but the text.
func refused(err error) bool {
	text := err.Error()
	return strings.Contains(text, "HTTP status 401") || strings.Contains(text, "HTTP status 403")
}

// missing reports whether the connection's catalog or schema is not there. Of that too the driver gives only the text.
func missing(err error) bool { return strings.Contains(err.Error(), "SQLSTATE: 42") }

var (
	wrapping = regexp.MustCompile(`^(?s:.*unexpected operation state \w+:|databricks: [a-z ]+:)\s*`)
	class    = regexp.MustCompile(`^\[([A-Z0-9_.]+)\] *`)
)

// message is the server's error with its class in front: "TABLE_OR_VIEW_NOT_FOUND: The table …".
func message(err error) string {
	text := firstLine(wrapping.ReplaceAllString(err.Error(), ""))
	return class.ReplaceAllString(text, "$1: ")
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}

// unreachable names server and catalog, never what signs in.
func (w *warehouse) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fault.New(fault.TaskCancelled, "connect to Databricks at %s: %w", w.place(), context.Cause(ctx))
	}
	if state := sqlState(err); state != "" {
		return err // of a statement
	}
	hint := "check host and http_path of the warehouse, and that its SQL warehouse is there"
	if refused(err) {
		hint = "check token, or client_id and client_secret, of the warehouse"
	}
	reason := message(err)
	var f *fault.Error
	if errors.As(err, &f) {
		reason = f.Message
	}
	e := fault.New(fault.WarehouseDown, "no connection to the catalog %s of Databricks at %s: %s", w.options.Catalog, w.place(), reason).WithHint("%s", hint)
	e.Retryable = !refused(err) && !missing(err)
	return e
}

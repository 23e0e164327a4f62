package trino

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	client "github.com/trinodb/trino-go-client/trino"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// Error names, from io.trino.spi.StandardErrorCode and the Iceberg connector.
const (
	commitError    = "ICEBERG_COMMIT_ERROR"
	writeConflict  = "TRANSACTION_CONFLICT"
	syntaxError    = "SYNTAX_ERROR"
	serverStarting = "SERVER_STARTING_UP"
	serverStopping = "SERVER_SHUTTING_DOWN"
)

// conflicts are the texts by which a commit that another writer prevented differs from one that can never succeed: both
// have the same name and code.
var conflicts = []string{"Found conflicting", "Found new conflicting", "Missing required files to delete", "is not same as table metadata location", "concurrent update", "stale table metadata", "branch main has changed", "Version token mismatch"}

// passing are the names of errors that may be gone the next time.
var passing = []string{"NO_NODES_AVAILABLE", "REMOTE_TASK_ERROR", "REMOTE_TASK_MISMATCH", "REMOTE_HOST_GONE", "PAGE_TRANSPORT_ERROR", "PAGE_TRANSPORT_TIMEOUT",
	"TOO_MANY_REQUESTS_FAILED", "ICEBERG_FILESYSTEM_ERROR", "ICEBERG_CURSOR_ERROR", "ICEBERG_WRITER_CLOSE_ERROR", "ICEBERG_CANNOT_OPEN_SPLIT", "ABANDONED_QUERY"}

// failed turns a driver's error into one with a code. The message begins with the server's name of the error.
func (s *session) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fault.New(fault.TaskCancelled, "%s: %w", reason(err), context.Cause(ctx))
	}
	server := trinoError(err)
	if server == nil {
		return &fault.Error{Code: fault.WarehouseDown, Message: fmt.Sprintf("the connection to Trino at %s was lost: %s", s.w.place, reason(err)),
			Hint: "look at the coordinator's log", Retryable: true, Err: err}
	}
	e := &fault.Error{Code: fault.StatementFailed, Message: reason(err), Err: err}
	switch name := server.ErrorName; {
	case name == writeConflict || name == commitError && slices.ContainsFunc(conflicts, func(text string) bool { return strings.Contains(server.Message, text) }):
		e.Code, e.Retryable = fault.WriteConflict, true
	case name == serverStarting || name == serverStopping:
		e.Code, e.Retryable = fault.WarehouseDown, true
	case server.ErrorType == "INSUFFICIENT_RESOURCES" || slices.Contains(passing, name):
		e.Retryable = true
	}
	return e
}

func trinoError(err error) *client.ErrTrino {
	var e *client.ErrTrino
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// reason is one line about an error, without addresses, which may hold a password.
func reason(err error) string {
	if e := trinoError(err); e != nil {
		return e.ErrorName + ": " + firstLine(e.Message)
	}
	var f *fault.Error
	if errors.As(err, &f) && f.Err != nil {
		err = f.Err
	}
	return firstLine(withoutURL(err).Error())
}

func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

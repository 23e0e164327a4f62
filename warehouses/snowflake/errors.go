package snowflake

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/snowflakedb/gosnowflake"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// Numbers of the server's errors that this package acts on.
const (
	syntaxError      = 1003
	objectMissing    = 2003 // or the role may not see it
	duplicateColumn  = 2025
	databaseMissing  = 2043
	statementEnded   = 604
	waitedForLock    = 625 // another transaction has the table, or too many wait for it
	statementTimeout = 630
	noWarehouse      = 606 // none is chosen, or the role may not use it
)

// transient are numbers after which the same statement may succeed.
var transient = map[int]bool{
	statementEnded: true, // by an administrator, or because the warehouse was suspended
	390111:         true, // the session is gone
	390112:         true, // its token has run out
	390114:         true,
}

// serverError is the server's or the driver's error inside err.
func serverError(err error) *gosnowflake.SnowflakeError {
	var e *gosnowflake.SnowflakeError
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// refusesLogin reports whether the server answered that this user does not sign in this way: it counts such tries, and locks
// the user after some.
func refusesLogin(e *gosnowflake.SnowflakeError) bool {
	return e.Number >= 390100 && e.Number < 390111 || e.Number >= 390120 && e.Number < 390190 || e.Number >= 394300 && e.Number < 394500
}

// lost reports whether nothing is known of what became of a statement, because its answer did not come.
func lost(err error) bool {
	e := serverError(err)
	if e == nil {
		return true // of the network, or an HTTP status without an answer
	}
	driver := e.Number >= gosnowflake.ErrFailedToPostQuery && e.Number < gosnowflake.ErrNoReadOnlyTransaction
	gone := e.Number >= 390111 && e.Number <= 390114
	return driver || gone || strings.HasPrefix(e.SQLState, "08")
}

// reason is the server's error with number and state in front: "002003 (42S02): SQL compilation error: …".
func reason(err error) string {
	e := serverError(err)
	if e == nil {
		var request *url.Error
		if errors.As(err, &request) {
			err = request.Err // without the address, which is long and says nothing
		}
		return oneLine(err.Error())
	}
	message := e.Message
	if len(e.MessageArgs) > 0 {
		message = fmt.Sprintf(e.Message, e.MessageArgs...)
	}
	message = strings.TrimPrefix(message, fmt.Sprintf("%06d (%s): ", e.Number, e.SQLState))
	if e.SQLState == "" {
		return fmt.Sprintf("%06d: %s", e.Number, oneLine(message))
	}
	return fmt.Sprintf("%06d (%s): %s", e.Number, e.SQLState, oneLine(message))
}

// oneLine joins the lines, because the first says only "SQL compilation error:".
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// failed turns an error of the driver into one with a code.
func (s *session) failed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return s.cancelled(ctx, err)
	case lost(err):
		return s.broken(err)
	}
	server := serverError(err)
	e := &fault.Error{Code: fault.StatementFailed, Message: s.w.hide(reason(err)), Retryable: retryable(server), Err: err}
	switch {
	case server.Number == waitedForLock, strings.HasPrefix(server.SQLState, "40"):
		e.Code, e.Retryable = fault.WriteConflict, true
		e.Hint = "SHOW LOCKS tells who has the table"
	case server.Number == noWarehouse:
		e.Hint = "check warehouse.warehouse, and that the role may use it"
	case server.Number == statementTimeout:
		e.Hint = "raise STATEMENT_TIMEOUT_IN_SECONDS of the user or of the virtual warehouse"
	case server.QueryID != "" && server.QueryID != "-1":
		e.Hint = "query id " + server.QueryID
	}
	return e
}

// retryable: connection trouble, lack of resources and shutdown by SQLSTATE, and single numbers.
func retryable(e *gosnowflake.SnowflakeError) bool {
	if transient[e.Number] {
		return true
	}
	state := e.SQLState + "     "
	return state[:2] == "08" || state[:2] == "53" || state[:3] == "57P" && e.Number != noWarehouse
}

// cancelled: the driver has asked the server to end the statement, and returns after its answer. Where it got none, it joins
// both errors.
func (s *session) cancelled(ctx context.Context, err error) error {
	e := fault.New(fault.TaskCancelled, "the statement was cancelled: %w", context.Cause(ctx))
	var several interface{ Unwrap() []error }
	if !errors.As(err, &several) {
		return e
	}
	s.lost = true
	if s.w.endAll(s.id) != nil {
		e.Message += "; the server did not answer, so it may still run there"
	}
	return e
}

// broken ends the session, and what it still does in the server.
func (s *session) broken(err error) error {
	first := !s.lost
	s.lost = true
	e := fault.New(fault.WarehouseDown, "the connection to Snowflake was lost: %s", s.w.hide(reason(err)))
	e.Err = err
	if first && s.id != "" && s.w.endAll(s.id) != nil {
		e.Message += "; the statement may still run in the server"
	}
	return e
}

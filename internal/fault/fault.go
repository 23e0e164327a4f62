// Package fault is the one error type a user of etl-craft ever meets: what failed, where, why and what to do.
//
// Every error has a stable Code from the table in codes.go, which also gives the process's exit code and the page of
// the reference. Packages return *Error where they know the code and wrap plain errors everywhere else.
package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Error says what failed and what to do about it. Message is lower case, without the action, target and step, which
// Error() puts in front of it. SQL is for the attempt's log, never for the message.
type Error struct {
	Code    Code
	Message string
	Hint    string // what to do: a sentence, or a command to paste

	Pipeline, Task string
	Action, Target string
	Step           string
	SQL            string

	Retryable bool // another try may succeed with nothing changed
	Problems  []Problem
	Err       error
}

// Problem is one of several things found wrong in one go (validate, apply, a configuration file).
type Problem struct {
	Level     string // FAIL or WARN
	Code      Code
	Pipeline  string
	Task      string
	Parameter string
	Message   string
	Hint      string
	File      string
	Line      int
	Column    int

	Others []string // pipelines that it concerns besides Pipeline; not in documents
}

// MarshalJSON writes every key, null where it does not apply.
func (p Problem) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // whoever encodes the whole decides
	err := e.Encode(struct {
		Level     string  `json:"level"`
		Code      Code    `json:"code"`
		Pipeline  *string `json:"pipeline"`
		Task      *string `json:"task"`
		Parameter *string `json:"parameter"`
		Message   string  `json:"message"`
		Hint      *string `json:"hint"`
		File      *string `json:"file"`
		Line      *int    `json:"line"`
		Column    *int    `json:"column"`
	}{
		p.Level, p.Code, orNull(p.Pipeline), orNull(p.Task), orNull(p.Parameter), p.Message, orNull(p.Hint),
		orNull(p.File), orNull(p.Line), orNull(p.Column),
	})
	return b.Bytes(), err
}

func orNull[T comparable](value T) *T {
	var none T
	if value == none {
		return nil
	}
	return &value
}

// New makes an Error. A %w in format is unwrapped as by fmt.Errorf.
func New(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err), Retryable: code.spec().Retryable}
}

// WithHint sets the remedy and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Error is "ACTION target: step failed: message", with the parts that are known; a refusal of the engine's own has no
// "failed".
func (e *Error) Error() string {
	var b strings.Builder
	if e.Action != "" {
		b.WriteString(e.Action)
		if e.Target != "" {
			b.WriteString(" " + e.Target)
		}
		b.WriteString(": ")
	}
	switch {
	case e.Step == "":
	case e.Code == StatementFailed || e.Code == WriteConflict || e.Code == CommitUnknown:
		b.WriteString(e.Step + " failed: ")
	default:
		b.WriteString(e.Step + ": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, &Error{Code: c}) a test for a code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Message == ""
}

// As returns the *Error inside err; any other error becomes one with code INTERNAL. As(nil) is nil.
func As(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: Internal, Message: err.Error(), Err: err}
}

// Has reports whether err carries code.
func Has(err error, code Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// ExitCode is the process's exit code for err, 0 for nil.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	return As(err).Code.spec().Exit
}

package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// errorText is an error for people: the error, what it is made of, and what to do.
func errorText(err error, s *screen) string {
	f := fault.As(err)
	message := f.Error()
	problems := f.Problems
	if len(problems) > 0 {
		if first, _, many := strings.Cut(message, "\n"); many {
			message = strings.TrimSuffix(first, ":") // the rest are the problems, listed below
		} else if len(problems) == 1 && strings.Contains(message, problems[0].Message) {
			problems = nil
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", s.paint(text.FgRed, "error:"), message)
	b.WriteString(problemLines(problems, s))
	if f.Hint != "" {
		fmt.Fprintf(&b, "%s %s\n", s.paint(text.FgCyan, "hint:"), f.Hint)
	}
	return b.String()
}

// problemLines is one line per problem, and one for its remedy.
func problemLines(problems []fault.Problem, s *screen) string {
	var b strings.Builder
	for _, p := range problems {
		where := p.Pipeline
		if p.Task != "" {
			where = strings.TrimPrefix(where+"."+p.Task, ".")
		}
		where = strings.TrimSpace(where + " " + p.Parameter)
		place := placeOf(p)
		switch {
		case where == "" && place == "":
			fmt.Fprintf(&b, "%s %s", s.state(p.Level), p.Message)
		case where == "":
			fmt.Fprintf(&b, "%s %s: %s", s.state(p.Level), place, p.Message)
		case place == "":
			fmt.Fprintf(&b, "%s %s: %s", s.state(p.Level), where, p.Message)
		default:
			fmt.Fprintf(&b, "%s %s: %s (%s)", s.state(p.Level), where, p.Message, place)
		}
		b.WriteString("\n")
		if p.Hint != "" {
			fmt.Fprintf(&b, "  %s %s\n", s.paint(text.FgCyan, "hint:"), p.Hint)
		}
	}
	return b.String()
}

// placeOf is file:line:col, as far as it is known.
func placeOf(p fault.Problem) string {
	switch {
	case p.File == "" || p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// errorDocument is the JSON document of a command that has no other answer.
type errorDocument struct {
	Error errorObject `json:"error"`
}

type errorObject struct {
	Code     string          `json:"code"`
	ExitCode int             `json:"exit_code"`
	Message  string          `json:"message"`
	Hint     *string         `json:"hint"`
	Pipeline *string         `json:"pipeline"`
	Task     *string         `json:"task"`
	Step     *string         `json:"step"`
	Problems []fault.Problem `json:"problems,omitempty"`
}

func errorDocumentOf(err error) errorDocument {
	f := fault.As(err)
	return errorDocument{errorObject{
		Code: string(f.Code), ExitCode: fault.ExitCode(err), Message: f.Error(), Hint: orNull(f.Hint),
		Pipeline: orNull(f.Pipeline), Task: orNull(f.Task), Step: orNull(f.Step), Problems: f.Problems,
	}}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

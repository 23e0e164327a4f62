package warehouses

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// Plan is everything an action does to the warehouse, in order. The executor, `plan`, logs, golden files and fault
// injection read this one value; no statement reaches a warehouse that is not a step or an inspection read.
type Plan struct {
	Action  string
	Target  string // database.schema.table
	Source  string // "SOURCE_SQL_FILE='orders.sql'", "SOURCE_SQL" or "" for actions without a SELECT
	Notes   []string
	Steps   []Step
	Columns []Column // of the target afterwards, for the tasks planned after it; nil when it is gone
	// BlockedBy names the earlier task without which the plan cannot be completed.
	BlockedBy string
	Open      bool // Columns differ from what the session shows to the tasks planned after it
}

// Count names a number that a step yields.
type Count string

// Counts that are recorded, and those that only other steps read.
const (
	SourceCount Count = "SOURCE_COUNT"
	TargetCount Count = "TARGET_COUNT"
	InsertCount Count = "INSERT_COUNT"
	UpdateCount Count = "UPDATE_COUNT"
	DeleteCount Count = "DELETE_COUNT"
	Repeated    Count = "repeated keys"
)

// Step is one statement.
type Step struct {
	Name    string // what logs, errors and audit call it
	Purpose string // why, for people; may be empty
	SQL     SQL
	Counts  Count   // the statement returns one number: this count
	Guard   *Guard  // the statement returns one number, and must return 0
	Witness string  // the statement returns one number, kept as the attempt's witness in this form ("row_id=%d")
	OnlyIf  []Count // skipped when all of these are 0
	// Changes are the counts whose sum the server must report as changed rows. 0 instead says that somebody else has written
	// the target since it was classified, and that this statement therefore did nothing.
	Changes []Count
	// Transaction groups steps that commit together; 0 commits alone.
	Transaction int
	Writes      bool // changes the target
	Prepares    bool // its change of the target alone means nothing to readers, and doing it again is harmless
	Cleanup     bool // runs also when a step before it has failed
	Undo        SQL  // takes the step back where it commits alone
}

// Guard fails the attempt when its step's number is not 0.
type Guard struct {
	Code    fault.Code
	Message string // with one %d for the number
	Hint    string
	Sample  SQL // optional: rows to show
}

// JSONStep is a step in the JSON document of `plan`.
type JSONStep struct {
	Name        string  `json:"name"`
	Purpose     string  `json:"purpose"`
	SQL         string  `json:"sql"`
	Transaction *int    `json:"transaction"`
	Counts      *string `json:"counts"`
	OnlyIf      *string `json:"only_if"`
	Undo        *string `json:"undo"`
}

// JSON converts the steps for the JSON document.
func (p *Plan) JSON() []JSONStep {
	out := make([]JSONStep, len(p.Steps))
	for i, s := range p.Steps {
		j := JSONStep{Name: s.Name, Purpose: s.Purpose, SQL: string(s.SQL)}
		if s.Transaction != 0 {
			group := s.Transaction
			j.Transaction = &group
		}
		if s.Counts != "" {
			j.Counts = text(string(s.Counts))
		}
		if len(s.OnlyIf) > 0 {
			j.OnlyIf = text(condition(s.OnlyIf))
		}
		if s.Undo != "" {
			j.Undo = text(string(s.Undo))
		}
		out[i] = j
	}
	return out
}

func text(s string) *string { return &s }

func condition(counts []Count) string {
	names := make([]string, len(counts))
	for i, c := range counts {
		names[i] = string(c)
	}
	return strings.Join(names, " + ") + " > 0"
}

// Remark is what the step does besides running its statement: "counts INSERT_COUNT", "fails when > 0".
func (s Step) Remark() string {
	var parts []string
	switch {
	case s.Counts != "":
		parts = append(parts, "counts "+string(s.Counts))
	case s.Guard != nil:
		parts = append(parts, "fails when > 0")
	case s.Witness != "":
		parts = append(parts, "remembers the row")
	}
	if len(s.OnlyIf) > 0 {
		parts = append(parts, "only if "+condition(s.OnlyIf))
	}
	if s.Cleanup {
		parts = append(parts, "always")
	}
	return strings.Join(parts, ", ")
}

// String is the plan as `plan` prints it without colours and as it lies beside an attempt's log.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "-- %s %s", p.Action, p.Target)
	if p.Source != "" {
		fmt.Fprintf(&b, " from %s", p.Source)
	}
	b.WriteString("\n")
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "-- note: %s\n", n)
	}
	group := 0
	for i, s := range p.Steps {
		if s.Transaction != group {
			if group != 0 {
				b.WriteString("\nCOMMIT;\n")
			}
			if s.Transaction != 0 {
				b.WriteString("\nBEGIN;\n")
			}
			group = s.Transaction
		}
		fmt.Fprintf(&b, "\n-- %d %s", i+1, s.Name)
		if r := s.Remark(); r != "" {
			fmt.Fprintf(&b, " (%s)", r)
		}
		b.WriteString("\n")
		if s.Purpose != "" {
			fmt.Fprintf(&b, "-- %s\n", s.Purpose)
		}
		fmt.Fprintf(&b, "%s;\n", s.SQL)
	}
	if group != 0 {
		b.WriteString("\nCOMMIT;\n")
	}
	if p.BlockedBy != "" {
		fmt.Fprintf(&b, "\n-- incomplete: %s\n", p.BlockedBy)
	}
	return b.String()
}

// SHA256 is the hex digest of String.
func (p *Plan) SHA256() string {
	sum := sha256.Sum256([]byte(p.String()))
	return hex.EncodeToString(sum[:])
}

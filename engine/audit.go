package engine

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/internal/fault"
)

// AuditDocument is etl-craft/audit/1.
type AuditDocument struct {
	Schema   string       `json:"schema"`
	Pipeline *string      `json:"pipeline"`
	Since    Time         `json:"since"`
	Entries  []AuditEntry `json:"entries"` // the oldest first
}

// Kinds of audit entries.
const (
	AuditCommand      = "command"      // somebody called a command that changes state
	AuditIntervention = "intervention" // an operator changed a run or a task
	AuditMetadata     = "metadata"     // a CFG_ row changed
)

// AuditEntry is one thing that somebody did. Fields that its kind does not have are null.
type AuditEntry struct {
	At            Time    `json:"at"`
	Kind          string  `json:"kind"`
	Actor         string  `json:"actor"`
	ActorKind     string  `json:"actor_kind"`
	Pipeline      *string `json:"pipeline"`
	PipelineRunID *int64  `json:"pipeline_run_id"`
	Task          *string `json:"task"`
	// Action is the command, the kind of intervention, or INSERT, UPDATE or DELETE.
	Action string `json:"action"`

	Host      *string         `json:"host"`
	Arguments json.RawMessage `json:"arguments"`
	Outcome   *string         `json:"outcome"` // DONE or the code of an error; null while the command runs
	ExitCode  *int            `json:"exit_code"`
	EndedAt   *Time           `json:"ended_at"`
	Result    json.RawMessage `json:"result"` // what a command came to, where it says so: purge

	FromStatus *string `json:"from_status"`
	ToStatus   *string `json:"to_status"`
	Rows       *int64  `json:"rows"`
	Message    *string `json:"previous_message"`
	Reason     *string `json:"reason"`

	Table  *string         `json:"table"`
	Key    *string         `json:"key"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	Origin *string         `json:"origin"`
}

// Audit lists who did what since a time, of one pipeline or, with "", of everything. since is a date, a time (both UTC
// unless they say otherwise), or how long ago, as 24h or 7d.
func (e *Engine) Audit(ctx context.Context, pipeline, since string) (*AuditDocument, error) {
	now, err := e.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	from, err := parseSince(since, now)
	if err != nil {
		return nil, err
	}
	doc := &AuditDocument{Schema: "etl-craft/audit/1", Since: Time{from}, Entries: []AuditEntry{}}
	pipelineID, err := e.pipelineID(ctx, pipeline)
	if err != nil {
		return nil, err
	}
	doc.Pipeline = orNil(pipeline)
	actions, err := e.Store.Actions(ctx, pipelineID, from)
	if err != nil {
		return nil, err
	}
	for _, a := range actions {
		doc.Entries = append(doc.Entries, actionEntry(a))
	}
	interventions, err := e.Store.Interventions(ctx, pipelineID, from)
	if err != nil {
		return nil, err
	}
	for _, i := range interventions {
		doc.Entries = append(doc.Entries, interventionEntry(i))
	}
	changes, err := e.Store.Changes(ctx, pipeline, from)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		doc.Entries = append(doc.Entries, changeEntry(c, doc.Pipeline))
	}
	slices.SortStableFunc(doc.Entries, func(a, b AuditEntry) int { return a.At.Compare(b.At.Time) })
	return doc, nil
}

func actionEntry(a store.Action) AuditEntry {
	entry := AuditEntry{
		At: Time{a.At}, Kind: AuditCommand, Actor: a.Actor.Name, ActorKind: a.Actor.Kind, Pipeline: orNil(a.Pipeline), Action: a.Command,
		Host: orNil(a.Host), Arguments: json.RawMessage(a.Arguments), Outcome: orNil(a.Outcome), ExitCode: a.ExitCode, EndedAt: timeOrNil(a.EndedAt),
	}
	if a.Result != "" {
		entry.Result = json.RawMessage(a.Result)
	}
	if a.RunID != 0 {
		entry.PipelineRunID = &a.RunID
	}
	var said struct{ Task, Reason string }
	if json.Unmarshal([]byte(a.Arguments), &said) == nil {
		entry.Task, entry.Reason = orNil(said.Task), orNil(said.Reason)
	}
	return entry
}

func interventionEntry(i store.Intervention) AuditEntry {
	return AuditEntry{
		At: Time{i.At}, Kind: AuditIntervention, Actor: i.Actor.Name, ActorKind: i.Actor.Kind, Pipeline: &i.Pipeline, PipelineRunID: &i.RunID,
		Task: orNil(i.Task), Action: i.Action, FromStatus: orNil(i.From), ToStatus: orNil(i.To), Rows: i.Rows, Message: orNil(i.Message),
		Reason: &i.Reason,
	}
}

func changeEntry(c store.Change, pipeline *string) AuditEntry {
	entry := AuditEntry{
		At: Time{c.At}, Kind: AuditMetadata, Actor: c.Actor.Name, ActorKind: c.Actor.Kind, Pipeline: pipeline, Action: c.Operation,
		Table: &c.Table, Key: &c.RowKey, Origin: orNil(c.Origin),
	}
	if c.Before != "" {
		entry.Before = json.RawMessage(c.Before)
	}
	if c.After != "" {
		entry.After = json.RawMessage(c.After)
	}
	return entry
}

// parseSince reads a date, a time, or a duration before now.
func parseSince(text string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 36500 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", time.DateTime, time.RFC3339Nano} {
		if t, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			return t.UTC(), nil
		}
	}
	return now, fault.New(fault.Usage, "--since %q is no date, time or duration", text).
		WithHint("write it as 2026-09-01, 2026-09-01T05:00, 24h or 7d")
}

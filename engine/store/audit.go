package store

import (
	"context"
	"database/sql"
	"time"
)

// Action is a row of AUD_ACTIONS to read.
type Action struct {
	At        time.Time
	EndedAt   *time.Time
	Actor     Actor
	Host      string
	Command   string
	Arguments string // JSON
	Pipeline  string // "" for none
	RunID     int64  // 0 for none
	Outcome   string // DONE, the code of an error, or "" while the command runs, and for ever when it was killed
	ExitCode  *int
	Result    string // JSON of what it came to, "" for commands that say nothing of it
}

// Intervention is a row of AUD_RUN_INTERVENTIONS to read.
type Intervention struct {
	At       time.Time
	Actor    Actor
	Pipeline string
	RunID    int64
	Task     string // "" for the run
	Action   string
	From, To string // "" where there is none
	Rows     *int64 // as stated by the operator
	Message  string // what was recorded of the task before
	Reason   string
}

// NoteRun records which run a command works on, once it is known.
func (s *Store) NoteRun(ctx context.Context, actionID, runID int64) error {
	return s.write(ctx, "record the command's run", func(t *tx) error {
		_, err := t.exec("note_run", actionID, runID)
		return err
	})
}

// Actions reads the state-changing commands since a time, of one pipeline or, with 0, all, the oldest first.
func (s *Store) Actions(ctx context.Context, pipelineID int64, since time.Time) ([]Action, error) {
	var actions []Action
	err := s.read(ctx, "read the commands", func(t *tx) error {
		return t.each("actions", func(rows *sql.Rows) error {
			var a Action
			err := rows.Scan(instant(&a.At), instantOrNil(&a.EndedAt), &a.Actor.Name, &a.Actor.Kind, &a.Host, &a.Command, text(&a.Arguments),
				text(&a.Pipeline), &a.RunID, text(&a.Outcome), &a.ExitCode, text(&a.Result))
			actions = append(actions, a)
			return err
		}, timeText(since), pipelineID)
	})
	return actions, err
}

// Interventions reads what was done to runs since a time, of one pipeline or, with 0, of all, the oldest first.
func (s *Store) Interventions(ctx context.Context, pipelineID int64, since time.Time) ([]Intervention, error) {
	return s.interventions(ctx, "interventions", timeText(since), pipelineID)
}

// InterventionsOfRuns reads what was done to the runs of a pipeline whose ids are in a range, the oldest first.
func (s *Store) InterventionsOfRuns(ctx context.Context, pipelineID, first, last int64) ([]Intervention, error) {
	return s.interventions(ctx, "interventions_of_runs", pipelineID, first, last)
}

func (s *Store) interventions(ctx context.Context, query string, args ...any) ([]Intervention, error) {
	var list []Intervention
	err := s.read(ctx, "read the interventions", func(t *tx) error {
		return t.each(query, func(rows *sql.Rows) error {
			var i Intervention
			err := rows.Scan(instant(&i.At), &i.Actor.Name, &i.Actor.Kind, &i.Pipeline, &i.RunID, text(&i.Task), &i.Action,
				text(&i.From), text(&i.To), &i.Rows, text(&i.Message), &i.Reason)
			list = append(list, i)
			return err
		}, args...)
	})
	return list, err
}

package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// BeginAction records that a state-changing command was asked for, and returns its id for EndAction.
func (s *Store) BeginAction(ctx context.Context, a ActionRecord) (int64, error) {
	var id int64
	err := s.write(ctx, "record the command", func(t *tx) error {
		return t.row("begin_action", a.Actor.Name, a.Actor.Kind, a.Host, a.Command, a.Arguments,
			orNull(a.PipelineID), orNull(a.PipelineRunID), orNull(a.TaskRunID)).Scan(&id)
	})
	return id, err
}

// EndAction records how a command ended, once.
func (s *Store) EndAction(ctx context.Context, id int64, outcome string, exitCode int) error {
	return s.write(ctx, "record the command's outcome", func(t *tx) error {
		n, err := t.exec("end_action", id, outcome, exitCode)
		if err != nil || n == 1 {
			return err
		}
		return fault.New(fault.Internal, "command %d has an outcome already, or does not exist", id)
	})
}

// Changes reads the changes of CFG_ rows since a time, of one pipeline or, with "", of all, the oldest first.
func (s *Store) Changes(ctx context.Context, pipelineCode string, since time.Time) ([]Change, error) {
	query, args := "changes", []any{timeText(since)}
	if pipelineCode != "" {
		query, args = "changes_of_pipeline", append(args, pipelineCode)
	}
	var changes []Change
	err := s.read(ctx, "read the changes", func(t *tx) error {
		return t.each(query, func(rows *sql.Rows) error {
			var c Change
			err := rows.Scan(instant(&c.At), &c.Actor.Name, &c.Actor.Kind, &c.Table, &c.RowKey, &c.Operation, text(&c.Before),
				text(&c.After), text(&c.Origin))
			changes = append(changes, c)
			return err
		}, args...)
	})
	return changes, err
}

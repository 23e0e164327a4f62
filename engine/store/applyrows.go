package store

import (
	"database/sql"
	"strconv"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// rowKind is one CFG_ table as ApplyMetadata sees it: columns that make the key, columns that may change.
type rowKind struct {
	object  string
	noun    string   // in the names of the queries
	list    string   // query: id, active flag, key columns, columns
	keys    int      // number of key columns
	ids     int      // how many of them, from the first, are ids
	columns []string // in the order of the queries' parameters
}

var (
	pipelineRows = rowKind{"pipeline", "pipeline", "all_pipelines", 1, 0,
		[]string{"PIPELINE_NAME", "DESCRIPTION", "REFRESH_TYPE", "RUN_SCHEDULE", "SCHEDULE_TIMEZONE", "SLA_IN_HOURS", "PIPELINE_PARAMETERS", "ORIGIN"}}
	taskRows = rowKind{"task", "task", "all_tasks", 2, 1,
		[]string{"TASK_TYPE", "HANDLER", "RUN_CONDITION", "RUN_CONDITION_COUNT", "ORIGIN"}}
	parameterRows = rowKind{"parameter", "parameter", "all_parameters", 2, 1,
		[]string{"PARAMETER_VALUE", "ORIGIN"}}
	taskEdgeRows = rowKind{"task dependency", "task_edge", "all_task_edges", 3, 2,
		[]string{"MATCH", "CONSUME_REPAIRS", "ORIGIN"}}
	pipelineEdgeRows = rowKind{"pipeline dependency", "pipeline_edge", "all_pipeline_edges", 3, 2,
		[]string{"MATCH", "CONSUME_REPAIRS", "ORIGIN"}}
)

// rowKey is the key columns as text, ids in decimal; unused ones are "".
type rowKey [3]string

// cfgRow is a row of any CFG_ table.
type cfgRow struct {
	id     int64
	active bool
	key    rowKey
	values []sql.NullString
	kept   bool // a file declares it
}

// cfgTable is what the table holds, the active row of each key or else its newest retired one.
type cfgTable struct {
	kind rowKind
	rows map[rowKey]*cfgRow
	// byOwner lists the keys by their first column, in order of their ids: the tasks of a pipeline, the parameters of a task.
	byOwner map[string][]rowKey
	names   map[string]string // id -> name, for pipelines and tasks
}

func (t *tx) table(kind rowKind) (*cfgTable, error) {
	table := &cfgTable{kind: kind, rows: map[rowKey]*cfgRow{}, byOwner: map[string][]rowKey{}, names: map[string]string{}}
	err := t.each(kind.list, func(rows *sql.Rows) error {
		r := &cfgRow{values: make([]sql.NullString, len(kind.columns))}
		to := []any{&r.id, yes(&r.active)}
		for i := range kind.keys {
			to = append(to, &r.key[i])
		}
		for i := range r.values {
			to = append(to, &r.values[i])
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		table.add(r)
		return nil
	})
	return table, err
}

func (c *cfgTable) add(r *cfgRow) {
	known, ok := c.rows[r.key]
	if ok && known.active && !r.active {
		return
	}
	if !ok {
		c.byOwner[r.key[0]] = append(c.byOwner[r.key[0]], r.key)
	}
	c.rows[r.key] = r
}

// applier carries out one ApplyMetadata.
type applier struct {
	*tx
	report ApplyReport
}

// put makes the row of key equal to want, whether it exists, is retired or is missing. name is the key as people read it.
func (a *applier) put(table *cfgTable, key rowKey, name string, want []sql.NullString) (*cfgRow, error) {
	row := table.rows[key]
	if row == nil {
		return a.insert(table, key, name, want)
	}
	row.kept = true
	operation := Updated
	if !row.active {
		operation = Restored
	}
	changed := differences(table.kind.columns, row.values, want)
	if row.active && len(changed) == 0 {
		return row, nil
	}
	args := []any{row.id}
	for _, v := range want {
		args = append(args, v)
	}
	if _, err := a.exec("update_"+table.kind.noun, args...); err != nil {
		return nil, a.refused(table.kind, name, err)
	}
	row.active, row.values = true, want
	a.note(operation, table.kind, name, changed)
	return row, nil
}

func (a *applier) insert(table *cfgTable, key rowKey, name string, want []sql.NullString) (*cfgRow, error) {
	var args []any
	for i, k := range key[:table.kind.keys] {
		if i >= table.kind.ids {
			args = append(args, k)
			continue
		}
		id, err := strconv.ParseInt(k, 10, 64)
		if err != nil {
			return nil, err
		}
		args = append(args, id)
	}
	for _, v := range want {
		args = append(args, v)
	}
	row := &cfgRow{active: true, key: key, values: want, kept: true}
	if err := a.row("insert_"+table.kind.noun, args...).Scan(&row.id); err != nil {
		return nil, a.refused(table.kind, name, err)
	}
	table.add(row)
	table.names[idText(row.id)] = name
	a.note(Inserted, table.kind, name, differences(table.kind.columns, make([]sql.NullString, len(want)), want))
	return row, nil
}

func (a *applier) retire(table *cfgTable, row *cfgRow, name string) error {
	if _, err := a.exec("retire_"+table.kind.noun, row.id); err != nil {
		return err
	}
	row.active = false
	a.note(Retired, table.kind, name, nil)
	return nil
}

func (a *applier) note(operation string, kind rowKind, name string, columns []ColumnChange) {
	a.report.Changes = append(a.report.Changes, ApplyChange{Operation: operation, Object: kind.object, Key: name, Columns: columns})
}

func (a *applier) refused(kind rowKind, name string, err error) error {
	if a.s.b.Classify(err) != Rule {
		return err
	}
	return fault.New(fault.MetadataInvalid, "the Engine DB refuses %s %s: %w", kind.object, name, err)
}

func differences(columns []string, have, want []sql.NullString) []ColumnChange {
	var changed []ColumnChange
	for i, column := range columns {
		if have[i] != want[i] {
			changed = append(changed, ColumnChange{Column: column, Old: have[i].String, New: want[i].String})
		}
	}
	return changed
}

// optional is NULL for "".
func optional(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

func exactly(s string) sql.NullString { return sql.NullString{String: s, Valid: true} }

func idText(id int64) string { return strconv.FormatInt(id, 10) }

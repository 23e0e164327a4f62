package sql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/locks"
	"github.com/etl-craft/etl-craft/warehouses"
)

// planner turns parameters, an inspection and the attempt's stamps into the steps of one action. It asks nobody.
type planner struct {
	d      *warehouses.Dialect
	env    *handlers.Env
	spec   *spec
	in     *inspection
	stamps stamps
	first  bool // no earlier attempt of this task run may have committed

	plan                 *warehouses.Plan
	target               warehouses.SQL
	scratch              []warehouses.SQL // tables that the plan makes for itself, in their order
	stage, change, fresh warehouses.SQL   // scratch: staged rows, classified keys, the table that will replace the target
}

// frame is what statement templates may use. Every field is rendered SQL.
type frame struct {
	Table, Target, Stage, Change, New, Into warehouses.SQL
	Source, Version, WholeRow, Options      warehouses.SQL
	Number, And                             warehouses.SQL
	Casts, Selected                         []warehouses.SQL
	Alias                                   warehouses.SQL
	Keys, Columns, Order, Conditions        []warehouses.SQL
	InsertColumns, InsertValues, Sets       []warehouses.SQL
	Definitions                             []warehouses.SQL
	Definition, Hash, NewHash, Where        warehouses.SQL
	Schema, Plain, TaskRunID, Key, Old      warehouses.SQL
	Iceberg                                 bool // the target is an Iceberg table, or becomes one
}

func newPlanner(env *handlers.Env, sp *spec, in *inspection, st stamps, first bool) *planner {
	d := env.Dialect
	return &planner{
		d: d, env: env, spec: sp, in: in, stamps: st, first: first,
		target: d.Table(in.target),
		stage:  scratchName(d, in.target, "etl_stage_"+st.scratch),
		change: scratchName(d, in.target, "etl_change_"+st.scratch),
		fresh:  beside(d, in.target, "etl_new_"+st.scratch),
		plan:   &warehouses.Plan{Action: sp.Action, Target: in.target.String(), Source: sp.Label},
	}
}

// scratchName is that of a table which only the attempt uses.
func scratchName(d *warehouses.Dialect, target warehouses.QualifiedName, name string) warehouses.SQL {
	if d.TempTables {
		return d.Ident(name)
	}
	return beside(d, target, name)
}

func beside(d *warehouses.Dialect, target warehouses.QualifiedName, name string) warehouses.SQL {
	target.Table = name
	return d.Table(target)
}

// build makes the whole plan. An error is a refusal that needs no statement to be found out.
func (p *planner) build() (*warehouses.Plan, error) {
	build := map[string]func() error{
		CreateTable: p.createTable, SetupTable: p.setupTable, OverwriteTable: p.overwriteTable, AppendTable: p.appendTable,
		SCD1Merge: p.scd1Merge, SCD2Merge: p.scd2Merge, DropTable: p.dropTable, DeleteRows: p.deleteRows,
	}[p.spec.Action]
	if err := build(); err != nil {
		return nil, err
	}
	return p.plan, nil
}

func (p *planner) refuse(code fault.Code, hint, format string, args ...any) error {
	return refuse(code, hint, format, args...)
}

func (p *planner) render(statement string, f frame) warehouses.SQL {
	f.Iceberg = p.format() == warehouses.FormatIceberg
	return p.d.Render(statement, f)
}

// format is the target's, or that which a new one gets.
func (p *planner) format() string {
	if p.in.table != nil {
		return p.in.table.Format
	}
	return p.spec.Format
}

// add appends a step, to the action's one transaction where the warehouse has such.
func (p *planner) add(s warehouses.Step) {
	if p.d.Transactional {
		s.Transaction = 1
	}
	p.plan.Steps = append(p.plan.Steps, s)
}

func (p *planner) note(format string, args ...any) {
	p.plan.Notes = append(p.plan.Notes, fmt.Sprintf(format, args...))
}

// fence makes a successor in the warehouse wait for this transaction, even when its target lock was lost meanwhile.
func (p *planner) fence() {
	if !p.d.Fences {
		return
	}
	key := locks.FenceKey(p.in.facts.Identity, p.in.target.Key())
	p.add(warehouses.Step{Name: "fence", Purpose: "a later attempt waits here until this transaction has ended",
		SQL: p.render("fence", frame{Key: warehouses.Int(key.Int64())})})
}

// lockTarget keeps outside writers out from here to the commit.
func (p *planner) lockTarget() {
	if p.d.Fences {
		p.add(warehouses.Step{Name: "lock the target", Purpose: "outside writers wait until the commit", SQL: p.render("lock_target", frame{Target: p.target})})
	}
}

func (p *planner) scratchDropped() {
	if p.d.TempOptions != "" {
		return // they end with the transaction
	}
	for _, t := range slices.Backward(p.scratch) {
		if p.d.Transactional {
			p.add(warehouses.Step{Name: "drop scratch", SQL: p.render("drop_table", frame{Table: t})})
		} else {
			p.add(warehouses.Step{Name: "drop scratch", SQL: p.render("drop_scratch", frame{Table: t}), Cleanup: true})
		}
	}
}

// classify finds out what becomes of each key of the stage.
func (p *planner) classify(purpose, statement string, f frame) {
	p.scratch = append(p.scratch, p.change)
	p.add(warehouses.Step{Name: "classify", Purpose: purpose, SQL: p.render(statement, f)})
}

// dropLeft removes scratch tables of earlier attempts of this task run. One of them that still runs, without the target's
// lock, has then nothing left to publish.
func (p *planner) dropLeft() {
	for _, name := range p.in.left {
		p.add(warehouses.Step{Name: "drop what an earlier attempt left", SQL: p.render("drop_scratch", frame{Table: beside(p.d, p.in.target, name)})})
	}
}

// stored is a column as the target stores it, or as the SELECT returns it when the target does not have it yet or is made
// anew.
func (p *planner) stored(name string) warehouses.Column {
	if p.in.table != nil && p.spec.Action != CreateTable {
		if c := p.in.table.Column(name); c != nil {
			return c.Column
		}
	}
	for _, c := range p.in.columns {
		if strings.EqualFold(c.Name, name) {
			return c
		}
	}
	panic("no column " + name)
}

// stageSelect runs the SELECT, once, into a scratch table that has the target's stored types.
func (p *planner) stageSelect() {
	f := frame{Stage: p.stage, Source: p.in.source}
	typed := p.in.converted
	for _, c := range p.in.columns {
		stored := p.stored(c.Name)
		typed = typed || stored.Type.SQL != c.Type.SQL
		f.Columns = append(f.Columns, p.d.Ident(c.Name))
		f.Definitions = append(f.Definitions, p.d.Ident(c.Name)+" "+stored.Type.SQL)
		f.Casts = append(f.Casts, cast(p.d, p.d.Ident(c.Name), stored.Type)+" AS "+p.d.Ident(c.Name))
	}
	p.scratch = append(p.scratch, p.stage)
	p.dropLeft()
	if !p.d.Transactional {
		p.add(warehouses.Step{Name: "stage the SELECT", Purpose: "with the types that the target stores", SQL: p.render("stage_cast", f)})
	} else if typed {
		p.add(warehouses.Step{Name: "create the stage", Purpose: "with the types that the target stores", SQL: p.render("stage_typed", f)})
		p.add(warehouses.Step{Name: "stage the SELECT", SQL: p.render("stage_fill", f)})
	} else {
		p.add(warehouses.Step{Name: "stage the SELECT", SQL: p.render("stage", f)})
		p.add(warehouses.Step{
			Name: "stage fits the plan",
			SQL:  p.d.Render("stage_fits", stageShape{Stage: p.d.Text("etl_stage_" + p.stamps.scratch), Columns: p.shape()}),
			Guard: &warehouses.Guard{Code: fault.StageChanged, Message: "%d column(s) of the SELECT are not what they were when the task was planned",
				Hint: "run it again when the tables it reads no longer change"},
		})
	}
	p.add(warehouses.Step{Name: "rows of the SELECT", SQL: p.render("count", frame{Table: p.stage}), Counts: warehouses.SourceCount})
}

// cast converts to a type as the stage holds it. A text keeps its length: only storing it may find it too long.
func cast(d *warehouses.Dialect, value warehouses.SQL, t warehouses.Type) warehouses.SQL {
	to := t.SQL
	if t.Kind == warehouses.Text || t.Kind == warehouses.Char {
		to = d.TextType
	}
	return "CAST(" + value + " AS " + to + ")"
}

// stageShape is the frame of stage_fits: names and types as literals.
type stageShape struct {
	Stage   warehouses.SQL
	Columns []warehouses.SQL
}

func (p *planner) shape() []warehouses.SQL {
	out := make([]warehouses.SQL, len(p.in.columns))
	for i, c := range p.in.columns {
		out[i] = "(" + p.d.Text(c.Name) + ", " + p.d.Text(string(c.Type.SQL)) + ")"
	}
	return out
}

// indexStage gives the planner of the warehouse current statistics for the joins that follow.
func (p *planner) indexStage() {
	if !p.d.IndexesStage {
		return
	}
	p.add(warehouses.Step{Name: "index the stage", SQL: p.render("index_stage", frame{Stage: p.stage, Keys: p.keys()})})
	p.add(warehouses.Step{Name: "analyze the stage", SQL: p.render("analyze_stage", frame{Stage: p.stage})})
}

func (p *planner) keys() []warehouses.SQL { return p.d.Idents(p.spec.Keys) }

// guardNullKeys fails on rows that could match no target row.
func (p *planner) guardNullKeys() {
	p.add(warehouses.Step{
		Name: "NULL merge keys", SQL: p.render("null_keys", frame{Stage: p.stage, Keys: p.keys()}),
		Guard: &warehouses.Guard{Code: fault.NullKeys, Message: "%d row(s) of the SELECT have a NULL in MERGE_KEY (" + strings.Join(p.spec.Keys, ", ") + ")",
			Hint: "leave such rows out of the SELECT, or give them a key"},
	})
}

// oneRowPerKey fails on repeated keys, or keeps the first row of each in MERGE_DEDUPE_ORDER.
func (p *planner) oneRowPerKey() {
	f := frame{Stage: p.stage, Keys: p.keys()}
	repeated := warehouses.Step{Name: "repeated merge keys", SQL: p.render("repeated_keys", f)}
	if len(p.spec.Order) == 0 {
		repeated.Guard = &warehouses.Guard{Code: fault.DuplicateKeys, Message: "the SELECT returns %d merge key(s) more than once (" + strings.Join(p.spec.Keys, ", ") + ")",
			Hint: "return each key once, or set MERGE_DEDUPE_ORDER to say which row is kept", Sample: p.render("repeated_sample", f)}
		p.add(repeated)
		return
	}
	for _, o := range p.spec.Order {
		f.Order = append(f.Order, o.render(p.d, p.stored(o.column).Type))
	}
	f.Columns = p.selected()
	f.WholeRow = p.d.WholeRow(f.Columns)
	repeated.Counts = warehouses.Repeated
	p.add(repeated)
	p.add(warehouses.Step{
		Name: "ties in MERGE_DEDUPE_ORDER", OnlyIf: []warehouses.Count{warehouses.Repeated}, SQL: p.render("dedupe_ties", f),
		Guard: &warehouses.Guard{Code: fault.DedupeTie, Message: "MERGE_DEDUPE_ORDER ties between rows that differ, for %d merge key(s)",
			Hint: "add a column to MERGE_DEDUPE_ORDER that breaks the tie", Sample: p.render("dedupe_ties_sample", f)},
	})
	p.add(warehouses.Step{Name: "keep one row per key", OnlyIf: []warehouses.Count{warehouses.Repeated}, SQL: p.render("dedupe", f)})
}

// targetCount counts the target's rows at the end, unless the project does without.
func (p *planner) targetCount() {
	if p.env.CountTarget {
		p.add(warehouses.Step{Name: "rows in the target", SQL: p.render("count", frame{Table: p.target}), Counts: warehouses.TargetCount})
	}
}

// selected are the SELECT's columns, quoted.
func (p *planner) selected() []warehouses.SQL {
	out := make([]warehouses.SQL, len(p.in.columns))
	for i, c := range p.in.columns {
		out[i] = p.d.Ident(c.Name)
	}
	return out
}

// newRow lists columns and values of a row to insert: the SELECT's from the alias s, then what the engine adds. number is
// its ROW_ID where that has no generator.
func (p *planner) newRow(added []string, hash, number warehouses.SQL) (columns, values []warehouses.SQL) {
	for _, c := range p.selected() {
		columns, values = append(columns, c), append(values, "s."+c)
	}
	for _, a := range added {
		columns, values = append(columns, p.engineColumn(a)), append(values, p.stamps.inserted(a, hash))
	}
	if p.computesRowID() {
		columns, values = append(columns, p.engineColumn(rowID)), append(values, number)
	}
	return columns, values
}

// computesRowID reports whether the statement that inserts a row numbers it, because the target's ROW_ID has no generator.
func (p *planner) computesRowID() bool {
	if !p.d.ComputesRowID {
		return false
	}
	if p.in.table == nil || p.spec.Action == CreateTable {
		return true
	}
	c := p.in.table.Column(rowID)
	return c != nil && c.Generator == ""
}

// publish adds the one statement that changes the target, where a statement is what commits.
func (p *planner) publish(s warehouses.Step) {
	s.Writes = true
	p.add(s)
}

// version is the target's, to be compared with the one it had when the rows were classified.
func (p *planner) version() warehouses.SQL {
	if p.d.Version == nil {
		return ""
	}
	return p.d.Version(p.d, p.in.target)
}

// tableOptions are those of a new table.
func (p *planner) tableOptions() warehouses.SQL {
	if p.d.TableOptions == nil {
		return ""
	}
	s := p.spec.Storage
	s.Format = p.spec.Format
	return p.d.TableOptions(p.d, s)
}

// nextRowID goes on after the highest number in the target.
func (p *planner) nextRowID() warehouses.SQL {
	if p.in.table == nil || p.in.table.Column(rowID) == nil {
		return p.d.RowNumber
	}
	return p.render("highest_row_id", frame{Target: p.target}) + " + " + p.d.RowNumber
}

// rememberRowID keeps the highest number in the target before its rows are deleted, and goes on after it.
func (p *planner) rememberRowID() warehouses.SQL {
	if !p.computesRowID() || p.in.table.Column(rowID) == nil {
		return p.nextRowID()
	}
	p.scratch = append(p.scratch, p.change)
	p.add(warehouses.Step{Name: "remember the highest ROW_ID", Purpose: "ids of replaced rows are never used again",
		SQL: p.render("remember_row_id", frame{Target: p.target, Change: p.change})})
	return p.render("highest_row_id", frame{Target: p.change}) + " + " + p.d.RowNumber
}

func (p *planner) engineColumn(name string) warehouses.SQL { return p.d.Ident(p.d.FoldName(name)) }

// definitions are the columns of a new table, in their order.
func (p *planner) definitions(action string, old warehouses.SQL) []warehouses.SQL {
	var out []warehouses.SQL
	for _, c := range p.in.columns {
		out = append(out, p.d.Ident(c.Name)+" "+c.Type.SQL)
	}
	for _, c := range slices.Concat(identityColumns, auditColumns(action)) {
		out = append(out, p.engineColumn(c)+" "+columnType(p.d, c))
	}
	if slices.Contains(p.d.Ungenerated, p.spec.Format) {
		return append(out, p.engineColumn(rowID)+" "+columnType(p.d, rowID))
	}
	return append(out, p.engineColumn(rowID)+" "+p.d.RowID(p.d, p.in.target, old))
}

// columnsAfter is the shape that the target has when the plan is done.
func (p *planner) columnsAfter(action string) []warehouses.Column {
	out := slices.Clone(p.in.columns)
	for _, c := range slices.Concat(identityColumns, auditColumns(action), []string{rowID}) {
		out = append(out, warehouses.Column{Name: p.d.FoldName(c), Type: p.d.ParseType(string(columnType(p.d, c)))})
	}
	return out
}

// ensureSchema creates the target's schema where the project allows it.
func (p *planner) ensureSchema() error {
	if p.in.table != nil || p.in.schema {
		return nil
	}
	create := p.render("create_schema", frame{Schema: p.d.Schema(p.in.target)})
	if !p.env.CreateSchemas {
		return p.refuse(fault.SchemaMissing, fmt.Sprintf("run %s, or set warehouse.create_schemas: true", create), "the schema %s does not exist", p.in.target.Schema)
	}
	step := warehouses.Step{Name: "create the schema", SQL: create}
	if p.d.SchemaFirst {
		step.Purpose = "alone, as the transaction needs it"
		p.plan.Steps = append(p.plan.Steps, step)
		return nil
	}
	p.add(step)
	if back := p.in.facts.Schema; back != "" {
		session := warehouses.QualifiedName{Database: p.in.facts.Database, Schema: back}
		p.add(warehouses.Step{Name: "go back to the session's schema", Purpose: "which the SELECT's names are of", SQL: p.render("use_schema", frame{Schema: p.d.Schema(session)})})
	}
	return nil
}

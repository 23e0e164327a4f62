package crashtest

// scenario is one action on a prepared target; after it, a task that runs only when the action wrote rows.
type scenario struct {
	name    string
	prepare string // tasks that make the target and its first rows, in a pipeline of their own
	source  string // SQL that changes what the action will read
	task    string // the task under test, called act
	settles bool   // a later attempt adds up what an earlier one had committed
	writes  bool   // rows
}

func prepared(action, params string) string {
	setup := `
  - task: setup
    params: {SQL_ACTION: SETUP_TABLE, TARGET_OBJECT: t.target, SOURCE_SQL: "SELECT id, name, day FROM raw.rows"}`
	return setup + `
  - task: fill
    depends_on: [setup]
    params: {SQL_ACTION: ` + action + `, TARGET_OBJECT: t.target, SOURCE_SQL: "SELECT id, name, day FROM raw.rows"` + params + `}`
}

func acting(action, params string) string {
	return `
  - task: act
    params: {SQL_ACTION: ` + action + `, TARGET_OBJECT: t.target` + params + `}`
}

const (
	rows  = `, SOURCE_SQL: "SELECT id, name, day FROM raw.rows"`
	wider = `, SCHEMA_EVOLUTION: true, SOURCE_SQL: "SELECT id, name, day, id * 10 AS tens FROM raw.rows"`
	merge = `, MERGE_KEY: id, MERGE_COMPARE_COLUMNS: name|day`
	gone  = `, MERGE_KEY: id, SOURCE_SQL: "SELECT id FROM raw.gone"`

	changes = `UPDATE raw.rows SET name = name || '!' WHERE id % 3 = 0; INSERT INTO raw.rows SELECT i, 'new ' || i, NULL FROM generate_series(10, 12) AS r(i)`
)

var scenarios = []scenario{
	{"create", "", "", acting("CREATE_TABLE", rows), false, true},
	{"replace", prepared("APPEND_TABLE", ""), changes, acting("CREATE_TABLE", rows), false, true},
	{"setup", "", "", acting("SETUP_TABLE", rows+", SETUP_FOR: SCD2_MERGE"), false, false},
	{"overwrite", prepared("OVERWRITE_TABLE", ""), changes, acting("OVERWRITE_TABLE", wider), false, true},
	{"append", prepared("APPEND_TABLE", ""), changes, acting("APPEND_TABLE", rows), false, true},
	{"scd1", prepared("SCD1_MERGE", merge), changes, acting("SCD1_MERGE", merge+wider), true, true},
	{"scd2", prepared("SCD2_MERGE", merge), changes, acting("SCD2_MERGE", merge+wider), true, true},
	{"scd2 unchanged", prepared("SCD2_MERGE", merge), "", acting("SCD2_MERGE", merge+rows), true, false},
	{"soft delete", prepared("SCD2_MERGE", merge), "", acting("DELETE_ROWS", gone), true, true},
	{"hard delete", prepared("SCD1_MERGE", merge), "", acting("DELETE_ROWS", gone+", HARD_DELETE: true"), true, true},
}

func every(scenario) bool { return true }

// onExisting reports whether the target existed before.
func onExisting(s scenario) bool { return s.prepare != "" }

// dependency is HAS_DATA where the action reports rows.
func (s scenario) dependency() string {
	if s.name == "setup" {
		return "SUCCESS"
	}
	return "HAS_DATA"
}

// outcome is what became of the transaction of an attempt that did not tell.
type outcome int

const (
	certain outcome = iota // it had not come to COMMIT
	rolledBack
	committed
)

// settled is what a later attempt records of that: "Y" or "N" for committed, "-" when it does not ask.
func (s scenario) settled(o outcome) string {
	switch {
	case !s.settles || o == certain:
		return "-"
	case o == committed && s.writes:
		return "Y"
	}
	return "N" // also when there was nothing to commit
}

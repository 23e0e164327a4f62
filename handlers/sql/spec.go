package sql

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/sqlscan"
	"github.com/etl-craft/etl-craft/warehouses"
)

// spec is a SQL task's parameters, typed and checked. Names are folded as the warehouse folds unquoted names.
type spec struct {
	Action   string
	Target   warehouses.QualifiedName // Database is "" when the task does not name it
	Label    string                   // where the SELECT comes from, for logs: SOURCE_SQL_FILE='orders.sql'
	Select   *sqlscan.Select          // nil for DROP_TABLE
	Switches map[sqlscan.Token]bool
	Keys     []string
	Compare  []string
	Order    []orderTerm
	SetupFor string // the writing action whose audit columns a SETUP_TABLE target gets
	Evolve   bool
	Preserve bool
	Hard     bool
	Format   string
	Storage  warehouses.Storage // without Format
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// parse reads a task's parameters and finds everything wrong with them that can be seen without a warehouse. The spec
// is complete only when there are no problems.
func parse(env *handlers.Env, task *handlers.Task) (*spec, []fault.Problem) {
	values := task.Params
	sp := &spec{
		Action:   values["SQL_ACTION"],
		Evolve:   values["SCHEMA_EVOLUTION"] == "true",
		Preserve: values["PRESERVE_TARGET"] == "true",
		Hard:     values["HARD_DELETE"] == "true",
		Format:   env.TableFormat,
	}
	action := sp.Action
	if !slices.Contains(Actions, action) && action != "" {
		action = "" // its own problem; the others are still worth telling
	}
	problems := handlers.CheckParams(params, values, action, env.Dialect.StorageParams)
	if f := values["TABLE_FORMAT"]; f != "" {
		sp.Format = f
	}
	if sp.Format != "" && slices.Contains([]string{warehouses.FormatNative, warehouses.FormatIceberg}, sp.Format) && !slices.Contains(env.Dialect.Formats, sp.Format) {
		problems = append(problems, fail(fault.ParameterUnused, "TABLE_FORMAT", "tables there are "+strings.Join(env.Dialect.Formats, " or "),
			"%s has no %s tables", env.Dialect.Product, sp.Format))
	}
	sp.Storage = warehouses.Storage{Location: values["EXTERNAL_LOCATION"], Volume: values["EXTERNAL_VOLUME"], BaseLocation: values["BASE_LOCATION"], Catalog: values["CATALOG"]}
	problems = append(problems, sp.checkStorage(env.Dialect, values)...)
	problems = append(problems, sp.parseTarget(env, values["TARGET_OBJECT"])...)
	problems = append(problems, sp.parseColumns(env, values)...)
	_, inline := values["SOURCE_SQL"]
	_, fromFile := values["SOURCE_SQL_FILE"]
	if slices.Contains(withSelect, action) || action == "" && (inline || fromFile) {
		problems = append(problems, sp.parseSource(env, values)...)
	}
	switch action {
	case SetupTable:
		problems = append(problems, sp.deduceSetup(env, task)...)
	case DropTable:
		if !slices.ContainsFunc(siblings(env, task, sp.Target), func(s sibling) bool { return s.action == CreateTable }) {
			problems = append(problems, fail(fault.DropRefused, "TARGET_OBJECT", "add the CREATE_TABLE task, or drop the table yourself",
				"DROP_TABLE needs a CREATE_TABLE task of this pipeline for %s", sp.Target))
		}
	}
	return sp, problems
}

// checkStorage refuses storage parameters that say only half of where a table is to live, or what no location is.
func (sp *spec) checkStorage(d *warehouses.Dialect, values map[string]string) []fault.Problem {
	var problems []fault.Problem
	for _, name := range d.StorageParams {
		if strings.ContainsAny(values[name], "'\"\\\n") {
			problems = append(problems, fail(fault.ParameterInvalid, name, "write it without quotes, backslashes and line breaks", "%s is %q", name, values[name]))
		}
	}
	s := sp.Storage
	if !slices.Contains(d.StorageParams, "EXTERNAL_VOLUME") {
		return problems
	}
	switch {
	case (s.Volume == "") != (s.BaseLocation == ""):
		problems = append(problems, fail(fault.ParameterInvalid, "EXTERNAL_VOLUME", "set both, or neither", "EXTERNAL_VOLUME and BASE_LOCATION belong together"))
	case s.Catalog != "" && s.Volume == "":
		problems = append(problems, fail(fault.ParameterInvalid, "CATALOG", "set EXTERNAL_VOLUME and BASE_LOCATION too", "a table of the catalog %s needs a volume of yours", s.Catalog))
	}
	if (s.Volume != "" || s.Catalog != "") && sp.Format == warehouses.FormatNative {
		problems = append(problems, fail(fault.ParameterInvalid, "TABLE_FORMAT", "set TABLE_FORMAT to iceberg, or remove them", "EXTERNAL_VOLUME, BASE_LOCATION and CATALOG are for Iceberg tables"))
	}
	return problems
}

func fail(code fault.Code, parameter, hint, format string, args ...any) fault.Problem {
	return fault.Problem{Level: "FAIL", Code: code, Parameter: parameter, Message: fmt.Sprintf(format, args...), Hint: hint}
}

func (sp *spec) parseTarget(env *handlers.Env, text string) []fault.Problem {
	if strings.TrimSpace(text) == "" {
		return nil // reported as missing
	}
	name, ok := targetName(env.Dialect, text)
	if !ok {
		hint := "write schema.table, names of letters, digits and _"
		if !strings.Contains(text, ".") {
			hint = "put the schema in front: schema." + text
		}
		return []fault.Problem{fail(fault.ParameterInvalid, "TARGET_OBJECT", hint, "TARGET_OBJECT is %q", text)}
	}
	sp.Target = name
	return nil
}

// targetName reads schema.table or database.schema.table.
func targetName(d *warehouses.Dialect, text string) (warehouses.QualifiedName, bool) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	for i, p := range parts {
		if !plainName.MatchString(p) {
			return warehouses.QualifiedName{}, false
		}
		parts[i] = d.FoldName(p)
	}
	switch len(parts) {
	case 2:
		return warehouses.QualifiedName{Schema: parts[0], Table: parts[1]}, true
	case 3:
		return warehouses.QualifiedName{Database: parts[0], Schema: parts[1], Table: parts[2]}, true
	}
	return warehouses.QualifiedName{}, false
}

func (sp *spec) parseColumns(env *handlers.Env, values map[string]string) []fault.Problem {
	var problems []fault.Problem
	fold := func(parameter string) []string {
		if values[parameter] == "" {
			return nil
		}
		var columns []string
		for _, c := range handlers.Columns(values[parameter]) {
			switch {
			case isEngineColumn(c):
				problems = append(problems, fail(fault.ColumnReserved, parameter, "name columns of the SELECT", "%s names %s, which the engine writes", parameter, c))
			case plainName.MatchString(c): // any other is reported already
				columns = append(columns, env.Dialect.FoldName(c))
			}
		}
		return columns
	}
	sp.Keys, sp.Compare = fold("MERGE_KEY"), fold("MERGE_COMPARE_COLUMNS")
	if text := values["MERGE_DEDUPE_ORDER"]; text != "" {
		order, err := parseOrder(env.Dialect, text)
		if err != nil {
			problems = append(problems, fail(fault.ParameterInvalid, "MERGE_DEDUPE_ORDER", "write columns of the SELECT, such as updated_at DESC, id", "MERGE_DEDUPE_ORDER: %v", err))
		}
		sp.Order = order
	}
	return problems
}

func (sp *spec) parseSource(env *handlers.Env, values map[string]string) []fault.Problem {
	problems := sp.readSelect(env, values)
	if sp.Select == nil {
		return problems
	}
	parameter, file := sourceOf(values)
	sp.Switches = map[sqlscan.Token]bool{}
	for _, token := range sqlscan.Tokens() {
		sp.Switches[token] = values[token.Switch()] == "true"
	}
	if err := sp.Select.CheckTokens(sp.Switches); err != nil {
		problems = asProblems(parameter, file, err)
	}
	return append(problems, sp.checkListedColumns(env.Dialect, parameter)...)
}

// sourceOf is the parameter that the SELECT comes from, and the file when it is in one.
func sourceOf(values map[string]string) (parameter, file string) {
	if file, set := values["SOURCE_SQL_FILE"]; set {
		return "SOURCE_SQL_FILE", file
	}
	return "SOURCE_SQL", ""
}

// readSelect sets Label and Select. A text that is empty is no problem here, as it is reported already.
func (sp *spec) readSelect(env *handlers.Env, values map[string]string) []fault.Problem {
	text, inline := values["SOURCE_SQL"]
	_, fromFile := values["SOURCE_SQL_FILE"]
	parameter, file := sourceOf(values)
	switch {
	case inline && fromFile:
		return []fault.Problem{fail(fault.ParameterInvalid, "SOURCE_SQL", "keep one of them", "SOURCE_SQL and SOURCE_SQL_FILE are both set")}
	case !inline && !fromFile:
		return []fault.Problem{fail(fault.ParameterMissing, "SOURCE_SQL", "write the SELECT into SOURCE_SQL, or name its file with SOURCE_SQL_FILE", "%s needs SOURCE_SQL or SOURCE_SQL_FILE", sp.Action)}
	case strings.TrimSpace(text+file) == "":
		return nil
	case fromFile:
		read, problem := readSource(env.ProjectDir, file)
		if problem != nil {
			return []fault.Problem{*problem}
		}
		text, sp.Label = read, "SOURCE_SQL_FILE='"+file+"'"
	default:
		sp.Label = "SOURCE_SQL"
	}
	sel, err := sqlscan.Parse(text, env.Dialect.Syntax)
	if err != nil {
		return asProblems(parameter, file, err)
	}
	sp.Select = sel
	return nil
}

func readSource(projectDir, file string) (string, *fault.Problem) {
	refuse := func(hint, format string, args ...any) (string, *fault.Problem) {
		p := fail(fault.SourceFile, "SOURCE_SQL_FILE", hint, "SOURCE_SQL_FILE %q "+format, append([]any{file}, args...)...)
		return "", &p
	}
	const inside = "write a path inside sql_files/, such as sales/orders.sql"
	if !filepath.IsLocal(file) || strings.Contains(file, `\`) {
		return refuse(inside, "leaves sql_files/")
	}
	root, err := os.OpenRoot(filepath.Join(projectDir, "sql_files"))
	if err != nil {
		return refuse("create the folder sql_files beside etl-craft.yml", "cannot be read: the project has no folder sql_files")
	}
	defer func() { _ = root.Close() }()
	b, err := root.ReadFile(file)
	if err == nil {
		return string(b), nil
	}
	info, notThere := root.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse(nearestFile(root, file), "does not exist in sql_files/")
	case notThere != nil:
		return refuse(inside, "cannot be read: %v", cause(err)) // a link that leads out of the folder, among others
	case info.IsDir():
		return refuse("name a file in it", "is a folder")
	}
	return refuse("check its permissions", "cannot be read: %v", cause(err))
}

// asProblems gives the problems of a SELECT their parameter, and the file that lines and columns are of. Those of an
// inline SELECT are in the message only.
func asProblems(parameter, file string, err error) []fault.Problem {
	e := fault.As(err)
	problems := slices.Clone(e.Problems)
	if len(problems) == 0 {
		problems = []fault.Problem{{Level: "FAIL", Code: e.Code, Message: e.Message, Hint: e.Hint}}
	}
	for i := range problems {
		p := &problems[i]
		p.Parameter = parameter
		if file == "" || p.Line == 0 {
			p.Line, p.Column = 0, 0
			continue
		}
		p.File = "sql_files/" + filepath.ToSlash(file)
	}
	return problems
}

// checkListedColumns finds engine columns, unknown keys and the like among the columns that the text lists.
func (sp *spec) checkListedColumns(d *warehouses.Dialect, parameter string) []fault.Problem {
	var problems []fault.Problem
	listed, complete := sp.Select.Columns()
	have := map[string]bool{}
	var unplain, repeated []string
	for _, c := range listed {
		name := c.Name
		if !c.Quoted || d.Syntax.Fold == sqlscan.FoldNone {
			name = d.FoldName(name)
		}
		lower := strings.ToLower(name)
		switch {
		case isEngineColumn(name):
			problems = append(problems, fail(fault.ColumnReserved, parameter, "list the columns you need, or give them other names with AS", "the SELECT returns %s, which the engine writes itself", c.Name))
		case strings.Contains(name, `\`): // may be an escape of U&"…"
		case !plainName.MatchString(name) || name != d.FoldName(name):
			unplain = append(unplain, strconv.Quote(name))
		case have[lower]:
			repeated = append(repeated, name)
		}
		have[lower] = true
	}
	if len(unplain) > 0 {
		problems = append(problems, fail(fault.ColumnName, parameter, "give them plain names with AS: "+plainNames(d), unplainColumns, strings.Join(unplain, ", ")))
	}
	if len(repeated) > 0 {
		problems = append(problems, fail(fault.ColumnDuplicate, parameter, "give one of them another name with AS", repeatedColumns, strings.Join(repeated, ", ")))
	}
	if !complete {
		return problems
	}
	for _, use := range sp.columnUses() {
		if !have[strings.ToLower(use.column)] {
			problems = append(problems, fail(fault.ColumnMissing, use.parameter, "return it from the SELECT", "%s names %s, which the SELECT does not return", use.parameter, use.column))
		}
	}
	return problems
}

// What is told of columns, with or without the warehouse.
const (
	unplainColumns  = "the SELECT returns columns whose names would need quoting: %s"
	repeatedColumns = "the SELECT returns more than one column named %s"
)

type columnUse struct{ parameter, column string }

// columnUses lists the columns that parameters expect from the SELECT.
func (sp *spec) columnUses() []columnUse {
	var uses []columnUse
	for _, c := range sp.Keys {
		uses = append(uses, columnUse{"MERGE_KEY", c})
	}
	for _, c := range sp.Compare {
		uses = append(uses, columnUse{"MERGE_COMPARE_COLUMNS", c})
	}
	for _, o := range sp.Order {
		uses = append(uses, columnUse{"MERGE_DEDUPE_ORDER", o.column})
	}
	return uses
}

// sibling is another active SQL task of the pipeline on the same target.
type sibling struct {
	code, action, compare string
}

func siblings(env *handlers.Env, task *handlers.Task, target warehouses.QualifiedName) []sibling {
	var found []sibling
	for _, t := range task.Siblings {
		if t.ID == task.ID && t.Code == task.Code || t.Handler != "SQL" {
			continue
		}
		name, ok := targetName(env.Dialect, t.Params["TARGET_OBJECT"])
		if ok && sameTarget(env, name, target) {
			found = append(found, sibling{t.Code, t.Params["SQL_ACTION"], t.Params["MERGE_COMPARE_COLUMNS"]})
		}
	}
	return found
}

func sameTarget(env *handlers.Env, a, b warehouses.QualifiedName) bool {
	if a.Database == "" {
		a.Database = env.Database
	}
	if b.Database == "" {
		b.Database = env.Database
	}
	return a.Key() == b.Key()
}

// deduceSetup works out the audit columns of a SETUP_TABLE target from the pipeline's other tasks.
func (sp *spec) deduceSetup(env *handlers.Env, task *handlers.Task) []fault.Problem {
	given := task.Params["SETUP_FOR"]
	var actions, codes, compares []string
	for _, s := range siblings(env, task, sp.Target) {
		if !slices.Contains(writers, s.action) {
			continue
		}
		codes = append(codes, s.code+" ("+s.action+")")
		if !slices.ContainsFunc(actions, func(a string) bool { return slices.Equal(auditColumns(a), auditColumns(s.action)) }) {
			actions = append(actions, s.action)
		}
		if s.compare != "" && !slices.Contains(compares, s.compare) {
			compares = append(compares, s.compare)
		}
	}
	hint := "write one target with one kind of action, or keep a target for each"
	switch {
	case len(actions) > 1:
		return []fault.Problem{fail(fault.AuditUndecidable, "SQL_ACTION", hint, "the writers of %s need different audit columns: %s", sp.Target, strings.Join(codes, ", "))}
	case len(actions) == 1 && given != "" && slices.Contains(writers, given) && !slices.Equal(auditColumns(actions[0]), auditColumns(given)):
		return []fault.Problem{fail(fault.AuditUndecidable, "SETUP_FOR", "remove SETUP_FOR", "SETUP_FOR is %s, but %s is written by %s", given, sp.Target, strings.Join(codes, ", "))}
	case len(actions) == 1:
		sp.SetupFor = actions[0]
	case given == "":
		return []fault.Problem{fail(fault.AuditUndecidable, "SETUP_FOR", "set SETUP_FOR to the action that writes it", "no task of the pipeline writes %s", sp.Target)}
	default:
		sp.SetupFor = given
	}
	if len(compares) == 1 {
		for _, c := range handlers.Columns(compares[0]) {
			sp.Compare = append(sp.Compare, env.Dialect.FoldName(c))
		}
	}
	return nil
}

package sqlscan

import (
	"path"
	"slices"
	"strings"
)

// Table is a table that the text names. Database and Schema are empty when they are not written.
type Table struct {
	Database, Schema, Name Ident
	Line, Column           int
}

// Unknown is something else that the text reads from: a function, a file, a name that is only computed. What says which,
// such as "the function read_csv".
type Unknown struct {
	What         string
	Line, Column int
}

// Tables lists the tables that the text reads, in its order, one entry per mention. Names of CTEs are left out where
// they are visible; functions and files are not tables. It never fails: what it does not understand it leaves out.
func (s *Select) Tables() []Table {
	tables, _ := s.Reads()
	return tables
}

// Reads lists the tables that the text reads, as Tables does, and what else it may read rows from. Functions that only
// turn their arguments into rows, such as unnest, are neither.
func (s *Select) Reads() ([]Table, []Unknown) {
	w := &tableWalk{s: s}
	w.query(0, len(s.toks), nil)
	return w.found, w.unknown
}

// Key is the name as the warehouse compares it: names with equal keys are one.
func (syn Syntax) Key(n Ident) string {
	switch {
	case syn.Fold == FoldNone, syn.Fold == FoldLower && !n.Quoted:
		return strings.ToLower(n.Name)
	case !n.Quoted:
		return strings.ToUpper(n.Name)
	}
	return n.Name
}

type tableWalk struct {
	s       *Select
	found   []Table
	unknown []Unknown
}

// scope is the CTE names visible in a query, innermost first.
type scope struct {
	name  string
	outer *scope
}

func (sc *scope) has(name string) bool {
	for ; sc != nil; sc = sc.outer {
		if sc.name == name {
			return true
		}
	}
	return false
}

// query walks the query in tokens [i,end).
func (w *tableWalk) query(i, end int, visible *scope) {
	if !w.s.is(i, "WITH") {
		w.clauses(i, end, visible, false)
		return
	}
	list, err := w.s.with(i)
	if err != nil {
		return
	}
	if list.recursive {
		for _, c := range list.ctes {
			visible = &scope{w.s.syn.Key(c.name), visible}
		}
	}
	for _, c := range list.ctes {
		if list.recursive {
			w.query(c.open+1, c.close, visible)
			continue
		}
		named := &scope{w.s.syn.Key(c.name), visible}
		w.cte(c, visible, named)
		visible = named
	}
	if w.s.is(list.main, "TABLE") {
		w.tableWord(list.main, visible)
		list.main++
	}
	w.query(list.main, end, visible)
}

// cte walks a CTE of a list that is not RECURSIVE. It does not see itself, except behind its first UNION where the word
// may be left out.
func (w *tableWalk) cte(c cte, visible, named *scope) {
	if w.s.syn.RecursiveCTEs && !w.s.is(c.open+1, "WITH") {
		for i := c.open + 1; i < c.close; i = w.s.after(i) {
			if w.s.is(i, "UNION") {
				w.clauses(c.open+1, i, visible, false)
				w.clauses(i, c.close, named, false)
				return
			}
		}
	}
	w.query(c.open+1, c.close, visible)
}

// clauses walks tokens [i,end) of one frame. expected says that a table comes first, as in FROM (a JOIN b …).
func (w *tableWalk) clauses(i, end int, visible *scope, expected bool) {
	s := w.s
	inFrom := expected
	for i < end {
		switch {
		case s.is(i, "WITH") && s.queryStart(i):
			w.query(i, end, visible)
			return
		case s.char(i, '('):
			w.parentheses(i, visible, expected)
			expected = false
		case s.char(i, '['), s.char(i, '{'):
			w.expression(i+1, s.toks[i].match, visible)
			expected = false
		case s.is(i, "LATERAL") && s.is(i+1, "VIEW"):
			inFrom, expected = false, false
		case expected && w.tablePrefix(i):
		case s.is(i, "FROM") && (s.is(i-1, "DISTINCT") && s.is(i-2, "IS", "NOT") || s.is(i+1, "FIRST", "LAST") && s.is(i+2, "OVER", "RESPECT", "IGNORE")):
		case s.is(i, "FROM"):
			inFrom, expected = true, true
		case s.is(i, "JOIN"), s.syn.FromFirst && w.readsByName(i):
			expected = true
		case s.is(i, "SELECT", "WHERE", "HAVING", "WINDOW", "LIMIT", "OFFSET", "FETCH", "QUALIFY", "UNION", "EXCEPT", "INTERSECT"),
			s.is(i, "MINUS") && s.queryWord(s.lead(i+1)), s.is(i+1, "BY"):
			inFrom, expected = false, false
		case expected && s.is(i, "VALUES") && s.char(i+1, '('):
			i = w.rows(i+1, visible)
			expected = false
			continue
		case s.is(i, "TABLE"):
			w.tableWord(i, visible)
			expected = false
		case inFrom && s.char(i, ','):
			expected = true
		case expected && s.syn.FromFirst && s.isName(i) && s.char(i+1, ':') && !s.char(i+2, ':'):
			i++ // FROM alias: table
		case expected:
			i = w.table(i, visible)
			expected = false
			continue
		}
		i = s.after(i)
	}
}

// parentheses walks what token i opens: a query, joined tables where a table is expected, else an expression.
func (w *tableWalk) parentheses(i int, visible *scope, expected bool) {
	s := w.s
	open, end := i+1, s.toks[i].match
	switch {
	case open < end && s.inFunctionWithKeywords(open):
		w.expression(open, end, visible)
	case s.queryWord(open), s.syn.FromFirst && s.is(open, "DESCRIBE", "SUMMARIZE"):
		w.query(open, end, visible)
	case s.char(open, '(') && s.queryWord(s.lead(open)):
		w.clauses(open, end, visible, false)
	case expected:
		w.clauses(open, end, visible, true)
	default:
		w.expression(open, end, visible)
	}
}

// expression walks tokens [i,end), in which only parentheses can hold queries.
func (w *tableWalk) expression(i, end int, visible *scope) {
	for ; i < end; i++ {
		switch {
		case w.s.char(i, '('):
			w.parentheses(i, visible, false)
			i = w.s.toks[i].match
		case w.s.is(i, "TABLE"):
			w.tableWord(i, visible)
		}
	}
}

// rows walks the rows of VALUES in a FROM clause and is the index behind them.
func (w *tableWalk) rows(i int, visible *scope) int {
	s := w.s
	for {
		w.expression(i+1, s.toks[i].match, visible)
		i = s.after(i)
		if !s.char(i, ',') || !s.char(i+1, '(') || s.queryWord(s.lead(i+1)) {
			return i
		}
		i++
	}
}

// tablePrefix reports whether token i can stand before a table, or before the functions of ROWS FROM.
func (w *tableWalk) tablePrefix(i int) bool {
	s := w.s
	return s.is(i, "LATERAL") || s.is(i, "ONLY") && (s.isName(i+1) || s.char(i+1, '(')) ||
		s.is(i, "ROWS") && s.is(i+1, "FROM") || s.is(i, "TABLE") && s.char(i+1, '(')
}

// readsByName reports whether token i is a DuckDB statement that names its table without FROM.
func (w *tableWalk) readsByName(i int) bool {
	if w.s.is(i, "PIVOT", "PIVOT_WIDER", "UNPIVOT", "PIVOT_LONGER") {
		return !w.s.pivotClause(i)
	}
	return w.s.is(i, "DESCRIBE", "SUMMARIZE") && w.s.char(i-1, '(')
}

// tableWord records the query TABLE name, and TABLE(name) or TABLE name as an argument of a function.
func (w *tableWalk) tableWord(i int, visible *scope) {
	s := w.s
	query := s.queryStart(i) || s.char(i-1, ')') // behind a WITH list
	if s.is(i+1, "ONLY") && s.isName(i+2) {
		i++
	}
	switch {
	case s.isName(i+1) && (query || s.char(i-1, ',') || s.operator(i-2, "=>")):
		w.table(i+1, visible)
	case s.char(i+1, '(') && s.columnRef(i+2, s.toks[i+1].match):
		w.table(i+2, visible)
	}
}

// table records what token i names: a table, unless it is a CTE, or something unknown. It is the index behind the name.
func (w *tableWalk) table(i int, visible *scope) int {
	s := w.s
	start := i
	switch {
	case s.isName(i):
	case s.toks[i].kind == text && s.syn.FromFirst && !isFile(s.plainText(i)):
		w.record(start, visible, []Ident{{Name: s.plainText(i), Quoted: true}})
		return i + 1
	case s.toks[i].kind == text && s.syn.FromFirst:
		w.note(start, "the file "+s.quote(i))
		return i + 1
	case s.toks[i].kind == text:
		w.note(start, "the text "+s.quote(i))
		return i + 1
	default: // a stage, a variable
		for i++; i < len(s.toks) && s.toks[i].pos == s.toks[i-1].end && (s.isName(i) || s.char(i, '.') || s.char(i, '/') || s.char(i, '%') || s.char(i, '~')); i++ {
		}
		w.note(start, s.src[s.toks[start].pos:s.toks[i-1].end])
		return i
	}
	parts := []Ident{s.ident(i)}
	for i++; s.char(i, '.'); i += 2 {
		if s.char(i+1, '.') && s.isName(i+2) { // Snowflake's db..table
			parts = append(parts, Ident{Name: "PUBLIC"})
			i++
		}
		if !s.isName(i + 1) {
			break
		}
		parts = append(parts, s.ident(i+1))
	}
	if !s.char(i, '(') {
		w.record(start, visible, parts)
		return i
	}
	name := parts[len(parts)-1].Name
	if len(parts) > 1 || !slices.Contains(rowFunctions, strings.ToLower(name)) && !strings.HasPrefix(strings.ToLower(name), "json") {
		w.note(start, "the function "+s.src[s.toks[start].pos:s.toks[i-1].end])
	}
	return i
}

// record notes the table of the name that begins at token i.
func (w *tableWalk) record(i int, visible *scope, parts []Ident) {
	s := w.s
	last := parts[len(parts)-1]
	switch {
	case len(parts) == 1 && visible.has(s.syn.Key(last)):
		return
	case len(parts) == 2 && s.syn.FromFirst && s.syn.Key(parts[0]) == "recurring" && visible.has(s.syn.Key(last)): // all rows of a recursive CTE so far
		return
	case len(parts) == 1 && s.syn.FromFirst && last.Quoted && isFile(last.Name):
		w.note(i, "the file "+last.Name)
		return
	case len(parts) == 2 && s.syn.Backticks && strings.Contains(last.Name, "/"):
		w.note(i, "the files "+parts[0].Name+".`"+last.Name+"`")
		return
	case len(parts) > 3:
		w.note(i, "a name of more than three parts, "+s.quote(i)+"…")
		return
	}
	t := Table{Name: last}
	if len(parts) > 1 {
		t.Schema = parts[len(parts)-2]
	}
	if len(parts) > 2 {
		t.Database = parts[0]
	}
	t.Line, t.Column = position(s.src, s.toks[i].pos)
	w.found = append(w.found, t)
}

func (w *tableWalk) note(i int, what string) {
	line, column := position(w.s.src, w.s.toks[i].pos)
	w.unknown = append(w.unknown, Unknown{What: what, Line: line, Column: column})
}

// plainText is what the string literal at token i holds, as far as it has neither prefix nor escapes.
func (s *Select) plainText(i int) string {
	return strings.ReplaceAll(strings.Trim(s.src[s.toks[i].pos:s.toks[i].end], "'"), "''", "'")
}

// isFile reports whether DuckDB takes a name for a file's.
func isFile(name string) bool {
	return strings.ContainsAny(name, "/*") || slices.Contains(fileSuffixes, strings.ToLower(path.Ext(name)))
}

var fileSuffixes = []string{".csv", ".tsv", ".txt", ".parquet", ".json", ".jsonl", ".ndjson", ".xlsx", ".gz", ".zst", ".db", ".shp", ".arrow", ".avro"}

// rowFunctions read nothing but their arguments, and so do those whose names begin with json.
var rowFunctions = []string{"unnest", "generate_series", "generate_subscripts", "range", "repeat", "repeat_row", "sequence", "xmltable",
	"regexp_matches", "regexp_split_to_table", "string_to_table", "glob", "flatten", "generator", "split_to_table",
	"strtok_split_to_table", "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack",
	"variant_explode", "variant_explode_outer", "exclude_columns"}

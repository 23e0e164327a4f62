package sqlscan

import "strings"

// Table is a table that the text names. Database and Schema are empty when they are not written.
type Table struct {
	Database, Schema, Name Ident
	Line, Column           int
}

// Tables lists the tables that the text reads, in its order, one entry per mention. Names of CTEs are left out where
// they are visible; functions and files are not tables. It never fails: what it does not understand it leaves out.
func (s *Select) Tables() []Table {
	w := &tableWalk{s: s}
	w.query(0, len(s.toks), nil)
	return w.found
}

type tableWalk struct {
	s     *Select
	found []Table
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
			visible = &scope{w.fold(c.name), visible}
		}
	}
	for _, c := range list.ctes {
		w.query(c.open+1, c.close, visible)
		if !list.recursive {
			visible = &scope{w.fold(c.name), visible}
		}
	}
	if s := w.s; s.is(list.main, "TABLE") && s.isName(list.main+1) {
		w.table(list.main+1, visible)
	}
	w.query(list.main, end, visible)
}

// clauses walks tokens [i,end) of one frame. expected says that a table comes first, as in FROM (a JOIN b …).
func (w *tableWalk) clauses(i, end int, visible *scope, expected bool) {
	s := w.s
	inFrom := expected
	for i < end {
		switch {
		case s.char(i, '('):
			w.parentheses(i, visible, expected)
			expected = false
		case s.char(i, '['), s.char(i, '{'):
			w.expression(i+1, s.toks[i].match, visible)
		case s.is(i, "LATERAL") && s.is(i+1, "VIEW"):
			inFrom, expected = false, false
		case expected && w.tablePrefix(i):
		case s.is(i, "FROM") && s.is(i-1, "DISTINCT") && s.is(i-2, "IS", "NOT"):
		case s.is(i, "FROM", "JOIN"), s.syn.FromFirst && w.readsByName(i):
			inFrom, expected = true, true
		case s.is(i, "SELECT", "WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH", "QUALIFY",
			"UNION", "EXCEPT", "INTERSECT", "MINUS"):
			inFrom, expected = false, false
		case s.is(i, "TABLE"):
			w.tableWord(i, visible)
		case inFrom && s.char(i, ','):
			expected = true
		case expected && s.isName(i):
			i = w.table(i, visible)
			expected = false
			continue
		default:
			expected = false
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

// tableWord records TABLE name, and TABLE(name) as an argument of a table function.
func (w *tableWalk) tableWord(i int, visible *scope) {
	s := w.s
	if s.isName(i+1) && s.queryStart(i) {
		w.table(i+1, visible)
	}
	if s.char(i+1, '(') && s.columnRef(i+2, s.toks[i+1].match) {
		w.table(i+2, visible)
	}
}

// table records the dotted name at token i unless it is a CTE or a function, and is the index behind it.
func (w *tableWalk) table(i int, visible *scope) int {
	s := w.s
	start := i
	parts := []Ident{s.ident(i)}
	for i++; s.char(i, '.') && s.isName(i+1); i += 2 {
		parts = append(parts, s.ident(i+1))
	}
	if s.char(i, '(') || len(parts) > 3 || len(parts) == 1 && visible.has(w.fold(parts[0])) {
		return i
	}
	t := Table{Name: parts[len(parts)-1]}
	if len(parts) > 1 {
		t.Schema = parts[len(parts)-2]
	}
	if len(parts) > 2 {
		t.Database = parts[0]
	}
	t.Line, t.Column = position(s.src, s.toks[start].pos)
	w.found = append(w.found, t)
	return i
}

func (w *tableWalk) fold(n Ident) string {
	switch {
	case w.s.syn.Fold == FoldNone, w.s.syn.Fold == FoldLower && !n.Quoted:
		return strings.ToLower(n.Name)
	case !n.Quoted:
		return strings.ToUpper(n.Name)
	}
	return n.Name
}

package sqlscan

import (
	"slices"
	"strings"
)

// Ident is a name as written, without its quotes. When it is not Quoted, fold it as the warehouse does. The escapes of
// U&"…" are left as they are.
type Ident struct {
	Name   string
	Quoted bool
}

func (s *Select) ident(i int) Ident {
	t := s.toks[i]
	written := s.src[t.pos:t.end]
	if t.kind == word {
		return Ident{Name: written}
	}
	written = written[strings.IndexAny(written, "\"`"):]
	quote := written[:1]
	return Ident{Name: strings.ReplaceAll(written[1:len(written)-1], quote+quote, quote), Quoted: true}
}

// ParseName reads a dotted name of one to three parts, as a person types it.
func ParseName(text string, syn Syntax) ([]Ident, bool) {
	toks, err := lex(text, syn)
	s := &Select{src: text, syn: syn, toks: toks}
	if err != nil || len(toks) > 5 || !s.columnRef(0, len(toks)) {
		return nil, false
	}
	var parts []Ident
	for i := 0; i < len(toks); i += 2 {
		parts = append(parts, s.ident(i))
	}
	return parts, true
}

// Columns lists the output columns that the text names: plain columns and aliases, of the first SELECT where several
// are combined. complete is false when there are or may be others: a star, an expression without alias, a text that
// does not begin with SELECT.
func (s *Select) Columns() (names []Ident, complete bool) {
	first := s.lead(0)
	for s.is(first, "WITH") {
		list, err := s.with(first)
		if err != nil {
			return nil, false
		}
		first = s.lead(list.main)
	}
	if !s.is(first, "SELECT") {
		return nil, false
	}
	complete = !s.byName()
	end := s.frameEnd(first)
	from := s.skipQuantifier(first + 1)
	for i := from; ; i = s.after(i) {
		ended := i >= end || s.is(i, "FROM") && !s.is(i-1, "DISTINCT") || i > from && s.is(i, clauses...)
		if !ended && !s.char(i, ',') {
			continue
		}
		if column, ok := s.column(from, min(i, end)); ok {
			names = append(names, column)
		} else if i > from || !ended {
			complete = false
		}
		if ended {
			return names, complete && len(names) > 0
		}
		from = i + 1
	}
}

// clauses end the list of columns, besides FROM.
var clauses = []string{"WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH", "FOR", "UNION",
	"EXCEPT", "INTERSECT", "MINUS", "QUALIFY"}

// byName reports whether a set operation matches columns by name, so that later queries can add some.
func (s *Select) byName() bool {
	for i := range s.toks {
		if s.is(i, "BY") && s.is(i+1, "NAME") {
			return true
		}
	}
	return false
}

// skipQuantifier skips what can stand between SELECT and the first column.
func (s *Select) skipQuantifier(i int) int {
	switch {
	case s.is(i, "ALL"):
		return i + 1
	case s.is(i, "DISTINCT") && s.is(i+1, "ON") && s.char(i+2, '('):
		return s.after(i + 2)
	case s.is(i, "DISTINCT"):
		return i + 1
	case s.is(i, "TOP") && i+1 < len(s.toks) && s.toks[i+1].kind == number:
		return i + 2
	}
	return i
}

// column is the name of the output column written in tokens [a,b), if there is exactly one and the text says it.
func (s *Select) column(a, b int) (Ident, bool) {
	if a >= b || s.expands(a, b) {
		return Ident{}, false
	}
	last := b - 1
	switch {
	case s.syn.FromFirst && s.isName(a) && s.char(a+1, ':') && !s.char(a+2, ':'):
		return s.ident(a), true
	case !s.isName(last):
		return Ident{}, false
	case last > a && s.is(last-1, "AS"):
		return s.ident(last), true
	case s.columnRef(a, b):
		return s.ident(last), !s.is(a, values...)
	case s.is(last, noAlias...) || last == a:
		return Ident{}, false
	case s.columnRef(a, last):
		return s.ident(last), !s.is(a, prefixes...)
	}
	switch s.toks[last-1].kind {
	case text, number, token:
		return s.ident(last), s.toks[last-1].end < s.toks[last].pos // 0x1F is a number on most warehouses
	}
	return s.ident(last), s.char(last-1, ')') || s.char(last-1, ']')
}

// expands reports whether tokens [a,b) can be more than one column.
func (s *Select) expands(a, b int) bool {
	if s.char(a, '*') {
		return true
	}
	for i := a; i < b; i++ {
		if s.char(i, '*') && s.char(i-1, '.') || s.syn.FromFirst && s.is(i, "COLUMNS", "UNNEST") {
			return true
		}
	}
	return false
}

// columnRef reports whether tokens [a,b) are names joined by dots.
func (s *Select) columnRef(a, b int) bool {
	if (b-a)%2 == 0 {
		return false
	}
	for i := a; i < b; i++ {
		if even := (i-a)%2 == 0; even && !s.isName(i) || !even && !s.char(i, '.') {
			return false
		}
	}
	return true
}

var (
	// values are words that look like a column and are none.
	values = []string{"NULL", "TRUE", "FALSE", "DEFAULT", "USER", "SESSION_USER", "SYSTEM_USER", "CURRENT_USER",
		"CURRENT_ROLE", "CURRENT_CATALOG", "CURRENT_SCHEMA", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP",
		"LOCALTIME", "LOCALTIMESTAMP"}
	// noAlias are words that end an expression without being its alias.
	noAlias = append(slices.Clone(values), "END", "UNKNOWN", "ISNULL", "NOTNULL", "PRECISION", "VARYING", "ZONE",
		"NORMALIZED", "DOCUMENT", "UNSIGNED", "YEAR", "YEARS", "QUARTER", "QUARTERS", "MONTH", "MONTHS", "WEEK", "WEEKS",
		"DAY", "DAYS", "HOUR", "HOURS", "MINUTE", "MINUTES", "SECOND", "SECONDS", "MILLISECOND", "MILLISECONDS",
		"MICROSECOND", "MICROSECONDS", "DECADE", "DECADES", "CENTURY", "CENTURIES", "MILLENNIUM", "MILLENNIA")
	// prefixes are words after which a name is no alias.
	prefixes = []string{"NOT", "PRIOR", "CONNECT_BY_ROOT", "ARRAY", "ROW", "INTERVAL", "CASE"}
)

package sqlscan

import (
	"strings"
	"unicode/utf8"
)

// Select is one read-only query.
type Select struct {
	src  string // without BOM, up to the first semicolon
	syn  Syntax
	toks []tok
}

// Hints that several refusals give.
const (
	oneSelect = "write one SELECT, WITH, TABLE or VALUES"
	oneQuery  = "a task holds exactly one query: look up and aggregate inside it, with CTEs or subqueries"
)

// Parse reads text as one read-only query: SELECT, WITH, TABLE or VALUES, also in parentheses. A leading BOM, comments
// and a trailing semicolon are fine. Anything else is a *fault.Error SELECT_NOT_READ_ONLY that says what stands where;
// its one Problem has line and column.
//
// The $$ tokens are only recognised here; CheckTokens and Substitute judge them, and only what Substitute returns may
// go to a warehouse.
func Parse(text string, syn Syntax) (*Select, error) {
	src := strings.TrimPrefix(text, "\uFEFF")
	if i := invalidUTF8(src); i >= 0 {
		return nil, refuse(src, i, "save the file as UTF-8", "the text is not UTF-8 at %s", at(src, i))
	}
	if i := strings.IndexByte(src, 0); i >= 0 {
		return nil, refuse(src, i, "remove it", "a NUL character stands at %s", at(src, i))
	}
	toks, err := lex(src, syn)
	if err != nil {
		return nil, err
	}
	s := &Select{src: src, syn: syn, toks: toks}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

func invalidUTF8(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for i, r := range s {
		if r != utf8.RuneError {
			continue
		}
		if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
			return i
		}
	}
	return -1
}

// Body is the statement byte for byte, without BOM, trailing semicolon and what follows that. Comments before the
// semicolon are kept, so a -- comment can end it: put a line break after it. Tokens are still in it.
func (s *Select) Body() string { return s.src }

// check applies the rules and cuts the trailing semicolon.
func (s *Select) check() error {
	if len(s.toks) == 0 {
		return refuse(s.src, 0, oneSelect, "the text holds no statement")
	}
	if err := s.brackets(); err != nil {
		return err
	}
	if err := s.oneStatement(); err != nil {
		return err
	}
	if first := s.lead(0); !s.is(first, "SELECT", "WITH", "TABLE", "VALUES") {
		return s.refuse(first, oneSelect,
			"the statement begins with %s at %s", s.quote(first), s.at(first))
	}
	for i := range s.toks {
		if err := s.checkToken(i); err != nil {
			return err
		}
	}
	return nil
}

func (s *Select) checkToken(i int) error {
	switch t := s.toks[i]; {
	case t.kind == parameter:
		return s.parameter(i)
	case s.is(i, "WITH") && s.queryStart(i):
		_, err := s.with(i)
		return err
	case s.is(i, "INTO") && !s.xmlName(i) && !s.unpivotInto(i):
		return s.refuse(i, "leave INTO out: the engine writes the rows to TARGET_OBJECT",
			"SELECT … INTO at %s writes a table", s.at(i))
	case s.locks(i):
		return s.refuse(i, "leave the locking clause out",
			"%s at %s locks rows", s.src[t.pos:s.toks[i+1].end], s.at(i))
	case s.syn.StatementPipe && s.operator(i, "->>"):
		return s.refuse(i, oneQuery, "->> at %s begins a second statement", s.at(i))
	case s.syn.FromFirst && s.dynamicPivot(i):
		return s.refuse(i, "list the values: PIVOT … ON column IN ('a', 'b')",
			"PIVOT at %s leaves the values of ON to %s, which creates a type for them", s.at(i), s.syn.Warehouse)
	}
	return nil
}

// brackets matches them and notes what stands in which.
func (s *Select) brackets() error {
	open := -1
	for i := range s.toks {
		t := &s.toks[i]
		t.parent = open
		if t.kind != punct {
			continue
		}
		switch c := s.src[t.pos]; c {
		case '(', '[', '{':
			open = i
		case ')', ']', '}':
			if open < 0 || closing[s.src[s.toks[open].pos]] != c {
				return s.refuse(i, "remove it, or open it before", "%c at %s closes nothing", c, s.at(i))
			}
			t.match, s.toks[open].match = open, i
			open = s.toks[open].parent
			t.parent = open
		case ';':
			if open >= 0 {
				return s.refuse(open, "close it", "%s at %s is not closed", s.quote(open), s.at(open))
			}
		}
	}
	if open >= 0 {
		return s.refuse(open, "close it", "%s at %s is not closed", s.quote(open), s.at(open))
	}
	return nil
}

var closing = map[byte]byte{'(': ')', '[': ']', '{': '}'}

// oneStatement cuts source and tokens at the first semicolon, after which only others may stand.
func (s *Select) oneStatement() error {
	for i := range s.toks {
		if !s.char(i, ';') {
			continue
		}
		for j := i + 1; j < len(s.toks); j++ {
			if !s.char(j, ';') {
				return s.refuse(j, oneQuery, "a second statement begins with %s at %s", s.quote(j), s.at(j))
			}
		}
		if i == 0 {
			return s.refuse(0, oneSelect, "the text holds no statement before the semicolon at %s", s.at(0))
		}
		s.src, s.toks = s.src[:s.toks[i].pos], s.toks[:i]
		return nil
	}
	return nil
}

func (s *Select) parameter(i int) error {
	t := s.toks[i]
	hint := "write the value itself"
	if n := strings.TrimPrefix(s.src[t.pos:t.end], "$"); Token(n).known() {
		hint = "did you mean $$" + n + "?"
	}
	return s.refuse(i, hint, "%s at %s is a parameter, and nothing gives it a value", s.quote(i), s.at(i))
}

// xmlName reports whether token i is PostgreSQL's xmlelement(name into …), the one place where INTO is a bare name.
func (s *Select) xmlName(i int) bool {
	return i >= 2 && s.is(i-1, "NAME") && s.char(i-2, '(')
}

// unpivotInto reports whether token i is that of DuckDB's UNPIVOT … INTO NAME n VALUE v.
func (s *Select) unpivotInto(i int) bool {
	return s.syn.FromFirst && s.is(i+1, "NAME") && s.isName(i+2) && s.is(i+3, "VALUE")
}

// locks reports whether a locking clause begins at token i.
func (s *Select) locks(i int) bool {
	if !s.is(i, "FOR") {
		return false
	}
	if !s.is(i+1, "UPDATE", "SHARE") && !(s.is(i+1, "NO", "KEY") && s.is(i+2, "KEY", "SHARE")) {
		return false
	}
	return !s.inFunctionWithKeywords(i) && !s.char(s.toks[i].parent, '[')
}

// inFunctionWithKeywords reports whether token i stands directly in the parentheses of substring(a FROM b FOR c) and
// its like, where FROM and FOR begin no clause.
func (s *Select) inFunctionWithKeywords(i int) bool {
	open := s.toks[i].parent
	return open > 0 && s.char(open, '(') && !s.queryWord(open+1) &&
		s.is(open-1, "SUBSTRING", "OVERLAY", "TRIM", "EXTRACT", "POSITION", "PIVOT", "UNPIVOT")
}

// dynamicPivot reports whether DuckDB's PIVOT statement begins at token i and has an ON column without its values.
func (s *Select) dynamicPivot(i int) bool {
	if !s.is(i, "PIVOT", "PIVOT_WIDER") || s.pivotClause(i) {
		return false
	}
	end, on := s.frameEnd(i), -1
	for j := s.after(i); j < end; j = s.after(j) {
		if s.is(j, "ON") {
			on = j
			continue
		}
		if on >= 0 && s.is(j, "USING", "GROUP", "ORDER", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT") {
			end = j
			break
		}
	}
	if on < 0 {
		return false
	}
	listed := false
	for j := s.after(on); j < end; j = s.after(j) {
		switch {
		case s.is(j, "IN"):
			listed = !s.queryWord(s.lead(j + 1))
		case s.char(j, ','):
			if !listed {
				return true
			}
			listed = false
		}
	}
	return !listed
}

// pivotClause reports whether the PIVOT or UNPIVOT at token i is FROM t PIVOT (… FOR column IN (…)), which lists its
// values.
func (s *Select) pivotClause(i int) bool {
	if s.is(i+1, "INCLUDE", "EXCLUDE") && s.is(i+2, "NULLS") {
		i += 2
	}
	if !s.char(i+1, '(') {
		return false
	}
	for j := i + 2; j < s.toks[i+1].match; j = s.after(j) {
		if s.is(j, "FOR") {
			return true
		}
	}
	return false
}

// is reports whether token i is one of the keywords, in a place where it is no name.
func (s *Select) is(i int, keywords ...string) bool {
	if i < 0 || i >= len(s.toks) || s.toks[i].kind != word || s.toks[i].label {
		return false
	}
	return s.spells(i, keywords...)
}

// spells reports whether token i is one of the words, name or keyword.
func (s *Select) spells(i int, words ...string) bool {
	if i < 0 || i >= len(s.toks) || s.toks[i].kind != word {
		return false
	}
	for _, w := range words {
		if s.toks[i].upper == w {
			return true
		}
	}
	return false
}

// char reports whether token i is the punctuation c.
func (s *Select) char(i int, c byte) bool {
	return i >= 0 && i < len(s.toks) && s.toks[i].kind == punct && s.src[s.toks[i].pos] == c
}

// operator reports whether op is written at token i without gaps.
func (s *Select) operator(i int, op string) bool {
	return s.char(i, op[0]) && strings.HasPrefix(s.src[s.toks[i].pos:], op)
}

// isName reports whether token i can be a name.
func (s *Select) isName(i int) bool {
	return i >= 0 && i < len(s.toks) && (s.toks[i].kind == word || s.toks[i].kind == name)
}

// lead is the first token from i on that is no opening parenthesis.
func (s *Select) lead(i int) int {
	for s.char(i, '(') {
		i++
	}
	return i
}

// after is the token that follows token i, or the bracket it opens, in the same frame.
func (s *Select) after(i int) int {
	if m := s.toks[i].match; m > i {
		return m + 1
	}
	return i + 1
}

// frameEnd is the index behind the last token of the frame that token i stands in.
func (s *Select) frameEnd(i int) int {
	if open := s.toks[i].parent; open >= 0 {
		return s.toks[open].match
	}
	return len(s.toks)
}

func (s *Select) at(i int) string { return at(s.src, s.toks[i].pos) }

// quote is the text of token i, cut short.
func (s *Select) quote(i int) string {
	if i >= len(s.toks) {
		return "nothing"
	}
	t := []rune(s.src[s.toks[i].pos:s.toks[i].end])
	if len(t) > 40 {
		return string(t[:40]) + "…"
	}
	return string(t)
}

func (s *Select) refuse(i int, hint, format string, args ...any) error {
	return refuse(s.src, s.toks[i].pos, hint, format, args...)
}

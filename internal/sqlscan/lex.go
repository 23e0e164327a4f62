package sqlscan

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/etl-craft/etl-craft/internal/fault"
)

type kind int

const (
	word      kind = iota
	name           // a quoted identifier
	text           // a string literal
	number         // a numeric literal
	punct          // one character of an operator or a separator
	parameter      // $1, $name, ?, and $ alone, since DuckDB lets space follow it
	token          // $$name of a known token
	badToken       // any other $$
)

// tok is a lexeme, src[pos:end].
type tok struct {
	kind     kind
	pos, end int
	upper    string // a word in upper case, "" when it is not ASCII
	label    bool   // stands where any word is a name: after AS or a dot
	untagged bool   // a $$…$$ string
	parent   int    // index of the bracket around it, -1 at the top
	match    int    // of a bracket: index of its partner
}

type lexer struct {
	src  string
	syn  Syntax
	pos  int
	toks []tok
}

// lex cuts src, which must be valid UTF-8, into tokens.
func lex(src string, syn Syntax) ([]tok, error) {
	l := &lexer{src: src, syn: syn, toks: make([]tok, 0, len(src)/4+1)}
	for l.pos < len(src) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	return l.toks, nil
}

func (l *lexer) next() error {
	c, rest := l.src[l.pos], l.src[l.pos:]
	switch {
	case isSpace(c):
		l.pos++
		return nil
	case strings.HasPrefix(rest, "--"), l.syn.SlashComments && strings.HasPrefix(rest, "//"):
		return l.lineComment()
	case strings.HasPrefix(rest, "/*"):
		return l.blockComment()
	case c == '\'':
		return l.quoted(text, 0, l.syn.BackslashEscapes)
	case c == '"' && l.syn.DoubleQuoteString:
		return l.quoted(text, 0, l.syn.BackslashEscapes)
	case c == '"', c == '`' && l.syn.Backticks:
		return l.quoted(name, 0, false)
	case c == '$':
		return l.dollar()
	case c == '?' && l.syn.QuestionParams:
		l.add(parameter, l.pos+1)
		return nil
	case isDigit(c), c == '.' && len(rest) > 1 && isDigit(rest[1]):
		l.add(number, l.pos+numberLen(rest))
		return nil
	case isNameStart(c):
		return l.word()
	}
	l.add(punct, l.pos+1)
	return nil
}

func (l *lexer) add(k kind, end int) *tok {
	t := tok{kind: k, pos: l.pos, end: end, match: -1, parent: -1}
	if n := len(l.toks); n > 0 && k != punct {
		prev := l.toks[n-1]
		afterDot := prev.kind == punct && l.src[prev.pos] == '.'
		t.label = afterDot || prev.kind == word && prev.upper == "AS" && !prev.label
	}
	if k == word {
		t.upper = asciiUpper(l.src[t.pos:t.end])
	}
	l.pos = end
	l.toks = append(l.toks, t)
	return &l.toks[len(l.toks)-1]
}

func (l *lexer) lineComment() error {
	start := l.pos
	for l.pos < len(l.src) {
		switch l.src[l.pos] {
		case '\n':
			if l.syn.CommentContinue && l.src[l.pos-1] == '\\' {
				break
			}
			return nil
		case '\r':
			// Not every warehouse ends a comment at a lone carriage return, so nothing may depend on it.
			line, _, _ := strings.Cut(l.src[l.pos:], "\n")
			if strings.TrimSpace(line) != "" {
				return refuse(l.src, l.pos, "end lines with LF or CRLF",
					"the comment at %s has a carriage return without a line feed in it", at(l.src, start))
			}
		}
		l.pos++
	}
	if l.syn.CommentContinue && strings.HasSuffix(l.src, "\\") {
		return refuse(l.src, start, "end the line without the backslash",
			"the comment at %s would go on in what follows the SELECT", at(l.src, start))
	}
	return nil
}

func (l *lexer) blockComment() error {
	start, depth := l.pos, 0
	for l.pos < len(l.src) {
		rest := l.src[l.pos:]
		switch {
		case strings.HasPrefix(rest, "/*") && (depth == 0 || l.syn.NestedComments):
			depth++
			l.pos += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			l.pos += 2
			if depth == 0 {
				return nil
			}
		default:
			l.pos++
		}
	}
	return refuse(l.src, start, "end it with */", "the comment at %s is not closed", at(l.src, start))
}

// quoted reads a string or a quoted name whose quote stands prefix bytes after pos.
func (l *lexer) quoted(k kind, prefix int, escapes bool) error {
	end := l.quoteEnd(l.pos+prefix, escapes)
	if end < 0 {
		what := "string"
		if k == name {
			what = "quoted name"
		}
		return refuse(l.src, l.pos, "close it", "the %s at %s is not closed", what, at(l.src, l.pos))
	}
	l.add(k, end)
	return nil
}

// quoteEnd is the end of the quoted text that begins at pos, -1 when nothing closes it.
func (l *lexer) quoteEnd(pos int, escapes bool) int {
	quote := l.src[pos]
	for i := pos + 1; i < len(l.src); i++ {
		switch {
		case l.src[i] == '\\' && escapes:
			i++
		case l.src[i] != quote:
		case i+1 < len(l.src) && l.src[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return -1
}

// escapeString reads E'…'. Like PostgreSQL it goes on where only space with a line break and -- comments separate it
// from another quote: that part has escapes too.
func (l *lexer) escapeString() error {
	start, quote := l.pos, l.pos+1
	for {
		end := l.quoteEnd(quote, true)
		if end < 0 {
			return refuse(l.src, start, "close it", "the string at %s is not closed", at(l.src, start))
		}
		quote = continuation(l.src, end)
		if quote < 0 {
			l.add(text, end)
			return nil
		}
	}
}

// continuation is where the string that ends at pos continues, -1 when it does not.
func continuation(src string, pos int) int {
	broken := false
	for pos < len(src) {
		switch {
		case src[pos] == '\n' || src[pos] == '\r':
			broken = true
			pos++
		case isSpace(src[pos]):
			pos++
		case strings.HasPrefix(src[pos:], "--"):
			n := strings.IndexAny(src[pos:], "\r\n")
			if n < 0 {
				return -1
			}
			pos += n
		case src[pos] == '\'' && broken:
			return pos
		default:
			return -1
		}
	}
	return -1
}

func (l *lexer) word() error {
	rest := l.src[l.pos:]
	c := rest[0] | 0x20
	next := byte(0)
	if len(rest) > 1 {
		next = rest[1]
	}
	switch {
	case c == 'e' && next == '\'' && l.syn.EscapeStrings:
		return l.escapeString()
	case c == 'r' && (next == '\'' || next == '"') && l.syn.RawStrings:
		return l.rawString(next)
	case c == 'u' && next == '&' && len(rest) > 2 && l.syn.UnicodeQuotes:
		switch rest[2] {
		case '\'':
			return l.quoted(text, 2, false)
		case '"':
			return l.quoted(name, 2, false)
		}
	}
	end := l.pos
	for end < len(l.src) && (isNameByte(l.src[end]) || l.src[end] == '$' && l.syn.DollarInNames) {
		if n := unicodeSpace(l.src[end:]); n > 0 {
			return refuse(l.src, end, "write a plain space there, or put the name in quotes",
				"an invisible character (U+%04X) stands at %s outside quotes", n, at(l.src, end))
		}
		_, size := utf8.DecodeRuneInString(l.src[end:])
		end += size
	}
	if n := len(l.toks); n > 0 && l.toks[n-1].kind == number && l.toks[n-1].end == l.pos && strings.Contains(l.src[l.pos:end], "$") {
		return refuse(l.src, l.pos, "put a space between them", "a number and a name with a dollar sign touch at %s",
			at(l.src, l.pos))
	}
	l.add(word, end)
	return nil
}

func (l *lexer) rawString(quote byte) error {
	n := strings.IndexByte(l.src[l.pos+2:], quote)
	if n < 0 {
		return refuse(l.src, l.pos, "close it", "the string at %s is not closed", at(l.src, l.pos))
	}
	l.add(text, l.pos+2+n+1)
	return nil
}

// dollar reads what begins with a dollar sign: a token, a string, a parameter.
func (l *lexer) dollar() error {
	rest := l.src[l.pos:]
	if strings.HasPrefix(rest, "$$") {
		run := nameRun(rest[2:])
		if Token(run).known() {
			l.add(token, l.pos+2+len(run))
			return nil
		}
		if end := strings.Index(rest[2:], "$$"); end >= 0 && l.syn.DollarQuotes {
			l.add(text, l.pos+2+end+2).untagged = true
			return nil
		}
		l.add(badToken, l.pos+2+len(run))
		return nil
	}
	if tag := dollarTag(rest); tag != "" && l.syn.TaggedDollar {
		end := strings.Index(rest[len(tag):], tag)
		if end < 0 {
			return refuse(l.src, l.pos, "end it with "+tag, "the string %s at %s is not closed", tag, at(l.src, l.pos))
		}
		l.add(text, l.pos+end+2*len(tag))
		return nil
	}
	if l.syn.DollarParams {
		l.add(parameter, l.pos+1+len(nameRun(rest[1:])))
		return nil
	}
	l.add(punct, l.pos+1)
	return nil
}

// dollarTag is the $tag$ that s begins with, or "".
func dollarTag(s string) string {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '$':
			return s[:i+1]
		case i == 1 && !isNameStart(s[i]), !isNameByte(s[i]), unicodeSpace(s[i:]) > 0:
			return ""
		}
	}
	return ""
}

// nameRun is the longest beginning of s that could be one name anywhere, dollar signs included.
func nameRun(s string) string {
	n := 0
	for n < len(s) && (isNameByte(s[n]) || s[n] == '$') {
		n++
	}
	return s[:n]
}

// numberLen is the length of the number s begins with. 0x1F is 0 and the name x1F, which is how DuckDB reads it; it makes
// no difference to PostgreSQL, where nothing but an operator may follow a number.
func numberLen(s string) int {
	n := digits(s, 0)
	if n < len(s) && s[n] == '.' {
		n = digits(s, n+1)
	}
	if n < len(s) && s[n]|0x20 == 'e' {
		e := n + 1
		if e < len(s) && (s[e] == '+' || s[e] == '-') {
			e++
		}
		if e < len(s) && isDigit(s[e]) {
			n = digits(s, e)
		}
	}
	return n
}

func digits(s string, n int) int {
	for n < len(s) && (isDigit(s[n]) || s[n] == '_' && n > 0 && isDigit(s[n-1]) && n+1 < len(s) && isDigit(s[n+1])) {
		n++
	}
	return n
}

func isSpace(c byte) bool     { return c == ' ' || c >= '\t' && c <= '\r' }
func isDigit(c byte) bool     { return c >= '0' && c <= '9' }
func isNameStart(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80 }
func isNameByte(c byte) bool  { return isNameStart(c) || isDigit(c) }

// unicodeSpace is the space or invisible character that s begins with, 0 when it is none. Warehouses disagree whether
// these separate words or belong to names, and DuckDB with itself.
func unicodeSpace(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	switch {
	case r == 0x85, r == 0xA0, r == 0x1680, r >= 0x2000 && r <= 0x200F, r >= 0x2028 && r <= 0x202F,
		r >= 0x205F && r <= 0x2064, r == 0x3000, r == 0xFEFF:
		return r
	}
	return 0
}

func asciiUpper(s string) string {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return ""
		}
	}
	return strings.ToUpper(s)
}

// at is the line:column of byte pos, both from 1, columns in characters.
func at(src string, pos int) string {
	line, column := position(src, pos)
	return fmt.Sprintf("%d:%d", line, column)
}

func position(src string, pos int) (line, column int) {
	before := src[:pos]
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
}

// refuse is the error that src is not one read-only query because of what stands at pos. hint may be "".
func refuse(src string, pos int, hint, format string, args ...any) *fault.Error {
	e := fault.New(fault.SelectInvalid, format, args...)
	e.Hint = hint
	line, column := position(src, pos)
	e.Problems = []fault.Problem{
		{Level: "FAIL", Code: e.Code, Message: e.Message, Hint: hint, Line: line, Column: column},
	}
	return e
}

package sqlscan

import (
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// Token is the name of a replaceable token, without its $$.
type Token string

// The tokens.
const (
	PipelineID          Token = "pipeline_id"
	PipelineRunID       Token = "pipeline_run_id"
	TaskRunID           Token = "task_run_id"
	PipelineRunIDFilter Token = "pipeline_run_id_filter"
	RunDate             Token = "run_date"
)

// Tokens lists every token in the order of the reference.
func Tokens() []Token {
	return []Token{PipelineID, PipelineRunID, TaskRunID, PipelineRunIDFilter, RunDate}
}

// Switch is the parameter that enables the token, such as RUN_DATE_SUBSTITUTION.
func (t Token) Switch() string {
	if t == PipelineRunIDFilter {
		return "PIPELINE_RUN_ID_FILTER"
	}
	return strings.ToUpper(string(t)) + "_SUBSTITUTION"
}

func (t Token) known() bool {
	for _, k := range Tokens() {
		if t == k {
			return true
		}
	}
	return false
}

// CheckTokens compares the text's tokens with the switches that are true. Everything wrong comes back in one
// *fault.Error TOKEN_INVALID, one Problem each, with line and column where the text is to blame.
func (s *Select) CheckTokens(on map[Token]bool) error {
	var problems []fault.Problem
	used := map[Token]bool{}
	for i, t := range s.toks {
		switch p := s.tokenProblem(i); {
		case p != nil:
			problems = append(problems, *p)
		case t.kind == token:
			name := s.tokenName(i)
			if !on[name] && !used[name] {
				problems = append(problems, s.problem(t.pos, "set "+name.Switch()+" = true, or remove the token",
					"$$"+string(name)+" is used but "+name.Switch()+" is not true"))
			}
		}
		if t.kind == token {
			used[s.tokenName(i)] = true
		}
	}
	for _, name := range Tokens() {
		if on[name] && !used[name] {
			problems = append(problems, fault.Problem{Level: "FAIL", Code: fault.TokenInvalid,
				Message: name.Switch() + " is true but the SELECT has no $$" + string(name),
				Hint:    "use the token outside quotes and comments, or remove the parameter"})
		}
	}
	if len(problems) == 0 {
		return nil
	}
	messages := make([]string, len(problems))
	for i, p := range problems {
		messages[i] = p.Message
	}
	e := fault.New(fault.TokenInvalid, "%s", strings.Join(messages, "; "))
	e.Hint = problems[0].Hint
	e.Problems = problems
	return e
}

// Substitute is Body with every token replaced by its value, byte for byte as given. values holds exactly the tokens
// whose switch is true; the errors are those of CheckTokens. Strings, quoted names and comments stay as they are.
func (s *Select) Substitute(values map[Token]string) (string, error) {
	on := make(map[Token]bool, len(values))
	for name := range values {
		on[name] = true
	}
	if err := s.CheckTokens(on); err != nil {
		return "", err
	}
	var b strings.Builder
	end := 0
	for i, t := range s.toks {
		if t.kind == token {
			b.WriteString(s.src[end:t.pos])
			b.WriteString(values[s.tokenName(i)])
			end = t.end
		}
	}
	b.WriteString(s.src[end:])
	return b.String(), nil
}

func (s *Select) tokenName(i int) Token { return Token(s.src[s.toks[i].pos+2 : s.toks[i].end]) }

// tokenProblem is what is wrong with token i as written, nil when nothing is.
func (s *Select) tokenProblem(i int) *fault.Problem {
	t := s.toks[i]
	written := s.src[t.pos:t.end]
	var p fault.Problem
	switch {
	case t.kind == token && s.touches(i):
		p = s.problem(t.pos, "put a space around the token", written+" touches what stands beside it")
	case t.kind == badToken:
		p = s.problem(t.pos, s.badTokenHint(written), written+" is not a token")
	case t.kind == word && holdsToken(written):
		p = s.problem(t.pos, "put a space before a token or string; if this is really a name, put it in quotes",
			"$$ is part of the name "+written)
	case t.untagged && s.ambiguous(i):
		p = s.problem(t.pos, "for a token write it in lower case and exactly; for a string use a tag: $text$…$text$",
			s.quote(i)+nameRun(s.src[t.end:])+" can be read as a string or as tokens")
	default:
		return nil
	}
	return &p
}

// touches reports whether the value of token i could join a neighbour: a word or number before it, a quote, which
// would continue a date's literal, or a dot behind it.
func (s *Select) touches(i int) bool {
	t := s.toks[i]
	if i > 0 && s.toks[i-1].end == t.pos && (s.toks[i-1].kind == word || s.toks[i-1].kind == number) {
		return true
	}
	return t.end < len(s.src) && (s.src[t.end] == '\'' || s.src[t.end] == '.')
}

// ambiguous reports whether the $$…$$ string at token i looks like two tokens with text between them: its body begins
// like a name, and the name behind it is a token's, or nearly so where both are.
func (s *Select) ambiguous(i int) bool {
	t := s.toks[i]
	body, behind := s.src[t.pos+2:t.end-2], nameRun(s.src[t.end:])
	if body == "" || !isNameStart(body[0]) || behind == "" {
		return false
	}
	if Token(strings.ToLower(behind)).known() {
		return true
	}
	return nearest(behind) != "" && nearest(nameRun(body)) != ""
}

// holdsToken reports whether the name w swallowed a token, or the end of a string. Elsewhere $$ in a name is as good as
// any letter.
func holdsToken(w string) bool {
	for _, part := range strings.Split(w, "$$")[1:] {
		if part == "" || nearest(part) != "" {
			return true
		}
	}
	return false
}

func (s *Select) badTokenHint(written string) string {
	written = strings.TrimPrefix(written, "$$")
	if inner, quoted := strings.CutSuffix(written, "$$"); quoted && Token(inner).known() {
		return s.syn.Warehouse + " has no $$…$$ strings: write $$" + inner + " for the token"
	}
	if now, ok := renamed[strings.ToLower(written)]; ok {
		return "it is $$" + string(now) + " now"
	}
	if near := nearest(written); near != "" {
		return "did you mean $$" + string(near) + "?"
	}
	names := make([]string, 0, len(Tokens()))
	for _, t := range Tokens() {
		names = append(names, "$$"+string(t))
	}
	return "the tokens are " + strings.Join(names, ", ")
}

// renamed are tokens of older texts.
var renamed = map[string]Token{"pipeline_id_filter": PipelineRunIDFilter}

// Misread warns where $$pipeline_id is compared with pipeline_run_id: it is the id of the pipeline, but in older texts it
// was that of the run.
func (s *Select) Misread() []fault.Problem {
	var problems []fault.Problem
	for i, t := range s.toks {
		if t.kind != token || s.tokenName(i) != PipelineID {
			continue
		}
		a, b := s.operand(i)
		before, after := a-1, b+1
		for before >= 0 && s.compares(before) {
			before--
		}
		for after < len(s.toks) && s.compares(after) {
			after++
		}
		left := before < a-1 && s.endsWithRunID(before) || s.endsWithRunID(s.comparedBefore(a, b))
		right := after > b+1 && s.beginsWithRunID(after)
		if left || right {
			p := s.problem(t.pos, "write $$pipeline_run_id for the run, with PIPELINE_RUN_ID_SUBSTITUTION = true", "$$pipeline_id, which is the id of the pipeline, is compared with pipeline_run_id")
			p.Level = "WARN"
			problems = append(problems, p)
		}
	}
	return problems
}

func (s *Select) compares(i int) bool {
	return s.char(i, '=') || s.char(i, '<') || s.char(i, '>') || s.char(i, '!')
}

// operand widens token i by parentheses and casts around it alone: its first and last token.
func (s *Select) operand(i int) (a, b int) {
	a, b = i, i
	for {
		open := s.toks[a].parent
		switch {
		case s.char(b+1, ':') && s.char(b+2, ':') && s.isName(b+3):
			b += 3
			if s.char(b+1, '(') {
				b = s.toks[b+1].match
			}
		case open != a-1 || !s.char(open, '('):
			return a, b
		case s.is(open-1, "CAST", "TRY_CAST") && s.is(b+1, "AS"):
			a, b = open-1, s.toks[open].match
		case b+1 == s.toks[open].match && (!s.isName(open-1) || s.is(open-1, beforeOperand...)):
			a, b = open, b+1
		default:
			return a, b
		}
	}
}

// beforeOperand are words that a parenthesis follows without being their argument.
var beforeOperand = []string{"WHERE", "AND", "OR", "NOT", "ON", "HAVING", "WHEN", "BETWEEN", "QUALIFY"}

// comparedBefore is the last token of what IN, BETWEEN or IS DISTINCT FROM compares with the operand [a,b], -1 when none does.
func (s *Select) comparedBefore(a, b int) int {
	at := -1
	open := s.toks[a].parent
	switch {
	case s.is(a-1, "BETWEEN"):
		at = a - 2
	case s.is(a-1, "SYMMETRIC", "ASYMMETRIC") && s.is(a-2, "BETWEEN"):
		at = a - 3
	case s.is(a-1, "AND"):
		if at = s.between(a - 1); at < 0 {
			return -1
		}
		at--
	case s.is(a-1, "FROM") && s.is(a-2, "DISTINCT"):
		if at = a - 3; s.is(at, "NOT") {
			at--
		}
		if !s.is(at, "IS") {
			return -1
		}
		return at - 1
	case s.is(open-1, "IN") && (a-1 == open || s.char(a-1, ',')) && (s.char(b+1, ',') || s.char(b+1, ')')):
		at = open - 2
	default:
		return -1
	}
	if s.is(at, "NOT") {
		at--
	}
	return at
}

// between is the BETWEEN that the AND at token i belongs to, -1 when it joins conditions.
func (s *Select) between(i int) int {
	for j := i - 1; j >= 0 && j > s.toks[i].parent; j-- {
		if m := s.toks[j].match; m > 0 && m < j {
			j = m
			continue
		}
		switch {
		case s.is(j, "BETWEEN"):
			return j
		case s.is(j, "AND", "OR", "WHERE", "ON", "HAVING", "WHEN", "SELECT"):
			return -1
		}
	}
	return -1
}

// endsWithRunID reports whether PIPELINE_RUN_ID, or a cast of it, ends at token i.
func (s *Select) endsWithRunID(i int) bool {
	for i >= 3 && s.char(i-1, ':') && s.char(i-2, ':') {
		i -= 3
	}
	if !s.char(i, ')') {
		return s.isRunID(i)
	}
	open := s.toks[i].match
	return s.beginsWithRunID(open) || s.is(open-1, "CAST", "TRY_CAST") && s.beginsWithRunID(open-1)
}

// beginsWithRunID reports whether PIPELINE_RUN_ID, or a cast of it, begins at token i.
func (s *Select) beginsWithRunID(i int) bool {
	cast := s.is(i, "CAST", "TRY_CAST") && s.char(i+1, '(')
	if cast {
		i++
	}
	grouped := s.char(i, '(')
	if grouped {
		i++
	}
	for i+2 < len(s.toks) && s.char(i+1, '.') {
		i += 2
	}
	return s.isRunID(i) && (!grouped || s.char(i+1, ')') || cast && s.is(i+1, "AS"))
}

func (s *Select) isRunID(i int) bool {
	return s.isName(i) && strings.EqualFold(s.ident(i).Name, "pipeline_run_id")
}

// nearest is the token whose name is written like w but for case and two letters, or "".
func nearest(w string) Token {
	best, distance := Token(""), 3
	for _, t := range Tokens() {
		if d := levenshtein.ComputeDistance(strings.ToLower(w), string(t)); d < distance {
			best, distance = t, d
		}
	}
	return best
}

func (s *Select) problem(pos int, hint, message string) fault.Problem {
	line, column := position(s.src, pos)
	return fault.Problem{Level: "FAIL", Code: fault.TokenInvalid, Message: message + " (" + at(s.src, pos) + ")",
		Hint: hint, Line: line, Column: column}
}

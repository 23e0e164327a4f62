package sqlscan

import (
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/internal/fault"
)

var syntaxes = []Syntax{PostgreSQL, DuckDB, Trino, Snowflake, Databricks}

func addCorpus(f *testing.F) {
	for i, c := range corpus {
		f.Add(c.text, uint8(i))
	}
	for _, text := range []string{
		"SELECT $$run_date, $$x$$ FROM s.t WHERE $$pipeline_run_id_filter", "SELECT $$run_date$$pipeline_id",
		"SELECT x.$$task_run_id::int, E'\\'$$' -- $$\n", "SELECT r'\\', `a``b`, // c\n 'a\\'b'", "SELECT a ->> b",
	} {
		for i := range syntaxes {
			f.Add(text, uint8(i))
		}
	}
	n := 0
	for text := range soup(2000) {
		f.Add(text, uint8(n))
		n++
	}
}

// valuesFor gives each token that s holds its value.
func valuesFor(s *Select) map[Token]string {
	values := map[Token]string{}
	for i, t := range s.toks {
		if t.kind == token {
			values[s.tokenName(i)] = all[s.tokenName(i)]
		}
	}
	return values
}

func FuzzParse(f *testing.F) {
	addCorpus(f)
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		syn := syntaxes[int(n)%len(syntaxes)]
		s, err := Parse(text, syn)
		if err != nil {
			if e := fault.As(err); e.Code != fault.SelectInvalid || len(e.Problems) != 1 || e.Problems[0].Line < 1 || e.Problems[0].Column < 1 {
				t.Errorf("%q gives %#v", text, err)
			}
			return
		}
		if !strings.Contains(text, s.Body()) {
			t.Errorf("%q: body %q is no part of it", text, s.Body())
		}
		again, err := Parse(s.Body(), syn)
		if err != nil || again.Body() != s.Body() {
			t.Errorf("%q: body %q does not parse: %v", text, s.Body(), err)
		}
		// What the engine wraps around a body must stay around it.
		if _, err := Parse("SELECT * FROM (\n"+s.Body()+"\n) AS q", syn); err != nil {
			t.Errorf("%q cannot be wrapped: %v", text, err)
		}
		s.Columns()
		s.Misread()
		for _, table := range s.Tables() {
			if table.Name.Name == "" && !table.Name.Quoted {
				t.Errorf("%q: table without name", text)
			}
		}
	})
}

func FuzzSubstitute(f *testing.F) {
	addCorpus(f)
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		syn := syntaxes[int(n)%len(syntaxes)]
		s, err := Parse(text, syn)
		if err != nil {
			return
		}
		if out, err := s.Substitute(nil); err == nil && out != s.Body() {
			t.Errorf("%q without tokens becomes %q", text, out)
		}
		values := valuesFor(s)
		out, err := s.Substitute(values)
		if err != nil {
			if !fault.Has(err, fault.TokenInvalid) {
				t.Errorf("%q gives %#v", text, err)
			}
			return
		}
		after, err := Parse(out, syn)
		if err != nil {
			t.Fatalf("%q becomes %q: %v", text, out, err)
		}
		if again, err := after.Substitute(nil); err != nil || again != out {
			t.Errorf("%q becomes %q, which holds tokens: %v", text, out, err)
		}
	})
}

// What the scanner accepts is one SELECT for DuckDB, or a syntax error.
func FuzzDuckDB(f *testing.F) {
	addCorpus(f)
	for text := range keywordTexts() {
		f.Add(text, uint8(0))
	}
	d := openDuck(f)
	f.Fuzz(func(t *testing.T, text string, _ uint8) {
		if len(text) > 400 { // DuckDB looks for a like-named function for seconds when an operator is that long
			return
		}
		s, err := Parse(text, DuckDB)
		if err != nil {
			return
		}
		values := valuesFor(s)
		out, err := s.Substitute(values)
		if err != nil {
			return
		}
		if n, sel, parseError := d.judge(out); parseError == "" && (n != 1 || !sel) {
			t.Errorf("%q: DuckDB sees %d statements, SELECT %v", out, n, sel)
		}
		if n, sel, parseError := d.judge("CREATE TEMP TABLE q AS SELECT * FROM (\n" + out + "\n)"); parseError == "" && n != 1 {
			t.Errorf("%q wrapped: DuckDB sees %d statements, SELECT %v", out, n, sel)
		}
	})
}

package sqlscan

import (
	"strings"
	"testing"

	"github.com/duckdb/duckdb-go/v2/mapping"
)

// duck is an in-memory DuckDB that is asked what a text is.
type duck struct{ conn mapping.Connection }

func openDuck(t testing.TB) duck {
	t.Helper()
	var db mapping.Database
	if mapping.Open("", &db) != mapping.StateSuccess {
		t.Fatal("cannot open DuckDB")
	}
	t.Cleanup(func() { mapping.Close(&db) })
	var d duck
	if mapping.Connect(db, &d.conn) != mapping.StateSuccess {
		t.Fatal("cannot connect to DuckDB")
	}
	t.Cleanup(func() { mapping.Disconnect(&d.conn) })
	for _, sql := range []string{"CREATE TABLE t(a int, b text, s int)", "CREATE SCHEMA s", "CREATE TABLE s.t(a int, b text)"} {
		var r mapping.Result
		if mapping.Query(d.conn, sql, &r) != mapping.StateSuccess {
			t.Fatal(mapping.ResultError(&r))
		}
		mapping.DestroyResult(&r)
	}
	return d
}

// judge says what DuckDB takes text for: a number of statements, whether it is one SELECT, and its error if any. Names
// that do not exist are no error; then the kind of the statement is not known.
func (d duck) judge(text string) (statements int, oneSelect bool, parseError string) {
	var stmts mapping.ExtractedStatements
	n := mapping.ExtractStatements(d.conn, text, &stmts)
	defer mapping.DestroyExtracted(&stmts)
	if n == 0 {
		return 0, false, mapping.ExtractStatementsError(stmts)
	}
	if n > 1 {
		return int(n), false, ""
	}
	var p mapping.PreparedStatement
	defer mapping.DestroyPrepare(&p)
	if mapping.PrepareExtractedStatement(d.conn, stmts, 0, &p) != mapping.StateSuccess {
		return 1, true, ""
	}
	return 1, mapping.PreparedStatementType(p) == mapping.StatementTypeSelect, ""
}

func TestDuckDBAgrees(t *testing.T) {
	d := openDuck(t)
	for _, c := range corpus {
		if c.duckdb == refused {
			continue
		}
		s, err := Parse(c.text, DuckDB)
		if err != nil {
			continue // TestParse says so
		}
		n, sel, parseError := d.judge(s.Body())
		switch {
		case c.duckdb == broken && parseError == "":
			t.Errorf("%q is no syntax error", c.text)
		case c.duckdb == read && (parseError != "" || n != 1 || !sel):
			t.Errorf("%q: %d statements, SELECT %v, %s", c.text, n, sel, parseError)
		}
	}
}

// Whatever DuckDB takes as a SELECT the scanner takes too, and whatever it takes as more the scanner refuses, with each
// keyword in each place.
func TestDuckDBKeywords(t *testing.T) {
	d := openDuck(t)
	n := 0
	for text := range keywordTexts() {
		statements, sel, parseError := d.judge(text)
		_, err := Parse(text, DuckDB)
		switch {
		case err == nil && (statements > 1 || statements == 1 && !sel):
			t.Errorf("%q is accepted; DuckDB: %d statements, SELECT %v", text, statements, sel)
		case err != nil && strings.Contains(err.Error(), "WITH list"): // DuckDB takes a string for a CTE's name
		case err != nil && parseError == "" && statements == 1 && sel:
			t.Errorf("%q is refused (%v), DuckDB takes it", text, err)
		}
		n++
	}
	t.Logf("%d texts", n)
}

func TestDuckDBSoup(t *testing.T) {
	d := openDuck(t)
	taken := 0
	for text := range soup(soupSize) {
		s, err := Parse(text, DuckDB)
		statements, sel, parseError := d.judge(text)
		if parseError == "" && statements == 1 && sel && err != nil && !deliberate(err) {
			t.Errorf("%q is refused (%v), DuckDB takes it", text, err)
		}
		if err != nil || s.CheckTokens(nil) != nil {
			continue
		}
		if statements, sel, parseError = d.judge(s.Body()); parseError == "" {
			taken++
			if statements != 1 || !sel {
				t.Errorf("%q is accepted; DuckDB: %d statements, SELECT %v", text, statements, sel)
			}
		}
	}
	t.Logf("%d texts taken by both", taken)
}

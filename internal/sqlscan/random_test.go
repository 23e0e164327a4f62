package sqlscan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// generator makes queries that return k and x, of CTEs and subqueries that hide the tables a to f again and again.
type generator struct{ *rand.Rand }

func (g generator) query(depth int) string {
	if depth == 0 || g.IntN(3) == 0 {
		return g.selection(depth, nil)
	}
	var list, names []string
	for _, i := range g.Perm(6)[:1+g.IntN(3)] {
		name := string("abcdef"[i])
		names = append(names, name)
		list = append(list, g.noise(name+" AS ("+g.query(depth-1)+")"))
	}
	return "WITH " + strings.Join(list, ", ") + " " + g.selection(depth, names)
}

// selection reads from the names, and from others.
func (g generator) selection(depth int, names []string) string {
	from := slices.Clone(names)
	for range 1 + g.IntN(2) {
		from = append(from, string("abcdef"[g.IntN(6)]))
	}
	if depth > 0 && g.IntN(2) == 0 {
		from = append(from, "("+g.query(depth-1)+")")
	}
	g.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
	var b strings.Builder
	b.WriteString("SELECT q0.k, q0.x FROM ")
	for i, f := range from {
		if i > 0 {
			b.WriteString([]string{", ", " CROSS JOIN "}[g.IntN(2)])
		}
		fmt.Fprintf(&b, "%s%sq%d", f, []string{" ", " AS "}[g.IntN(2)], i)
	}
	if depth > 0 && g.IntN(2) == 0 {
		fmt.Fprintf(&b, " WHERE q0.k IN (SELECT k FROM (%s) y) AND NOT EXISTS (%s)", g.query(depth-1), g.query(depth-1))
	}
	if depth > 0 && g.IntN(3) == 0 {
		fmt.Fprintf(&b, " UNION ALL (%s)", g.query(depth-1))
	}
	return g.noise(b.String())
}

// noise changes how a text looks, and nothing else.
func (g generator) noise(text string) string {
	switch g.IntN(4) {
	case 0:
		return strings.ReplaceAll(text, " FROM ", "\nFROM/*,f*/\t")
	case 1:
		return strings.ReplaceAll(text, ", ", "--\tFROM f\n,\t")
	}
	return text
}

const randomQueries = 300

func TestRandomQueriesDuckDB(t *testing.T) {
	c := openTables(t)
	g := generator{rand.New(rand.NewPCG(1, 2))}
	for range randomQueries {
		text := g.query(3)
		want, err := plannedByDuckDB(t, c, text)
		if got := scanned(t, text, DuckDB); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, DuckDB plans %v %v\n%s", got, want, err, text)
		}
	}
}

func TestRandomQueriesPostgres(t *testing.T) {
	forPostgres(t, func(t *testing.T, conn *pgx.Conn) {
		createTables(t, conn)
		g := generator{rand.New(rand.NewPCG(1, 2))}
		for range randomQueries {
			text := g.query(3)
			want, err := dependencies(t, conn, text)
			if got := scanned(t, text, PostgreSQL); err != nil || !slices.Equal(got, want) {
				t.Errorf("%v, PostgreSQL records %v %v\n%s", got, want, err, text)
			}
		}
	})
}

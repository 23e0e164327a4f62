package sqlscan

import (
	"iter"
	"math/rand/v2"
	"strings"
)

// pieces are what texts are mixed from to compare the lexers: quotes that open or close, comments, and statements that
// show when one of them was read differently.
var pieces = []string{"'", "'", "\"", "$$", "$$", "$a$", "$a$", "E'", "e'", "U&'", "u&\"", "n'", "x'", "\\", "\\'", "''", "--", "-- x\n",
	"\n", "\r\n", "\r", "/*", "*/", "/**/", ";", "; SELECT 2", "; DELETE FROM t", " INTO z", " AS a", "a", "é", "1", "1.", ".5", "1e", "0x", "$",
	"$1", "$b", "?", "@", "-", "+", "/", "*", " ", " ", ",", ", 1", "(", ")", "[", "]", "{", "}", "::int", " FROM t", " AS", ".", "t.",
	"SELECT 1", "(SELECT 1", "(DELETE FROM t)", "WITH x AS (", " UNION ", " FOR UPDATE", " 'b'", "\"c\"", "_", "#", "\f", "`", ":", "|", "0x1", "1_0", "0b1", "$é$", "é$$", "$$b", "$a$b$$"}

const soupSize = 20000

// deliberate reports whether err refuses what a server takes and a task cannot use or should not hold.
func deliberate(err error) bool {
	for _, why := range []string{"is a parameter", "carriage return", "locks rows", "touch at", "begins with é"} {
		if strings.Contains(err.Error(), why) {
			return true
		}
	}
	return false
}

// soup is n mixtures of pieces behind the beginning of a query, the same ones each time.
func soup(n int) iter.Seq[string] {
	r := rand.New(rand.NewPCG(1, 2))
	starts := []string{"SELECT ", "SELECT 1", "SELECT 'a' ", "WITH x AS (SELECT 1) SELECT ", "SELECT a FROM t WHERE b = "}
	return func(yield func(string) bool) {
		for range n {
			var b strings.Builder
			b.WriteString(starts[r.IntN(len(starts))])
			for range 1 + r.IntN(9) {
				b.WriteString(pieces[r.IntN(len(pieces))])
			}
			if !yield(b.String()) {
				return
			}
		}
	}
}

// Package warehousetest is the suite that every dialect passes against a real server. It runs the SQL handler and
// compares each row it leaves, and each count it reports, with a slow reference of the eight actions (oracle.go) that
// shares no code with the product.
package warehousetest

import (
	"flag"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/handlers"
)

var (
	sequences = flag.Int("sequences", 300, "random change sequences for each dialect")
	whole     = flag.Bool("whole", false, "every directed test, and more random sequences, also where one takes minutes")
	seed      = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random change sequences")
)

// Backend is one warehouse to test.
type Backend struct {
	Name string
	// Open gives the environment of the warehouse; the suite fills in what the Engine DB knows of targets. The
	// warehouse is closed by the test's cleanup.
	Open func(t *testing.T) *handlers.Env
	// Types are the warehouse's names of the types that the suite writes, where it has others: TIMESTAMP(6) for TIMESTAMP.
	Types map[string]string
	// Text writes a value for a CAST, where the warehouse reads another form than the suite's; nil where it does not.
	Text func(k Kind, value string) string
	// HashTypes names the types of columns of testdata/hash_values.csv that only some warehouses have, char8, ts_s, ts_ms,
	// ts_ns; "" leaves a column out.
	HashTypes map[string]string
	// Sequences is how many random sequences are enough where each takes long, four times as many with -whole; 0 is the flag's
	// number.
	Sequences int
	NoViews   bool // the warehouse has none
	NoCascade bool // a schema is dropped only when it is empty
	OneCase   bool // names of tables and schemas are found only as they were written
	// Directed names the directed tests that are run without -whole, where a statement takes long; nil is all.
	Directed []string
	// SideBySide: the tests mostly wait for the server, so that several may run at once.
	SideBySide bool
	// Stale is in the error of a reader's query during which the table got another shape: it asks again. "" where none does.
	Stale string
	// Failing is a SELECT of one column "id" that is only found to fail while it runs.
	Failing string
	// OtherTypes are columns of the warehouse's own types, as they stand in a SELECT: arrays, JSON and the like.
	OtherTypes string
	// Lacks names what the warehouse does not have: types of random columns, such as UUID; columns of testdata/hash_values.csv;
	// and TABLE, the query that is a table's name.
	Lacks []string
}

func (b Backend) has(what string) bool { return !slices.Contains(b.Lacks, what) }

// samples are those of types that the warehouse has.
func (b Backend) samples() []sample {
	return slices.DeleteFunc(slices.Clone(samples), func(s sample) bool { return !b.has(s.typ) })
}

func (b Backend) mayRunAside(t *testing.T) {
	if b.SideBySide {
		t.Parallel()
	}
}

// SideBySide lets n tests of a package run at once, unless the command line says how many. It is for TestMain.
func SideBySide(n int) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(n))
	}
}

// Run runs the suite.
func Run(t *testing.T, b Backend) {
	env := b.Open(t)
	for _, c := range directed {
		if b.Directed != nil && !*whole && !slices.Contains(b.Directed, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			b.mayRunAside(t)
			c.test(newBench(t, env, b))
		})
	}
	t.Run("readers", func(t *testing.T) { readers(t, env, b) })
	t.Run("hash_values", func(t *testing.T) { hashValues(t, env, b) })
	t.Run("sequences", func(t *testing.T) { randomSequences(t, env, b) })
}

// RunSequences runs the random sequences alone, for another format of a backend's tables.
func RunSequences(t *testing.T, b Backend) { randomSequences(t, b.Open(t), b) }

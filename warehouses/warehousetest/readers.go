package warehousetest

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/warehouses"
)

// readKeys is how many rows a generation has, generations how many are written while another connection reads.
const (
	readKeys    = 12
	generations = 6
)

// readCase is an action that is done again and again, each time as the next generation of its target. What a reader sees has
// to be one generation, whole.
type readCase struct {
	name   string
	before []map[string]string                    // what makes the target and fills it, nil where the action does
	write  func(generation int) map[string]string // the task's parameters, without its target
	look   string                                 // a SELECT of numbers from {t}, the generation first
	expect func(generation int64) []int64         // those behind the generation
}

// keysOf is a SELECT of readKeys rows of a generation, and as many more as it says.
func keysOf(generation, more int, also string) string {
	var rows []string
	for id := range readKeys + more {
		rows = append(rows, fmt.Sprintf("SELECT CAST(%d AS INTEGER) AS id, CAST(%d AS INTEGER) AS gen%s", id, generation, also))
	}
	return strings.Join(rows, "\nUNION ALL ")
}

func merging(action string, more func(int) int) func(int) map[string]string {
	return func(g int) map[string]string {
		return map[string]string{"SQL_ACTION": action, "MERGE_KEY": "id", "MERGE_COMPARE_COLUMNS": "gen", "SOURCE_SQL": keysOf(g, more(g), "")}
	}
}

func emptyOf(action string) map[string]string {
	return map[string]string{"SQL_ACTION": "SETUP_TABLE", "SETUP_FOR": action, "SOURCE_SQL": keysOf(0, 0, "")}
}

const wholeGeneration = "SELECT max(gen), count(DISTINCT gen), count(*), sum(gen) FROM {t}"

var readCases = []readCase{
	{"CREATE_TABLE", nil, func(g int) map[string]string {
		return map[string]string{"SQL_ACTION": "CREATE_TABLE", "SOURCE_SQL": keysOf(g, 0, "")}
	}, wholeGeneration, func(g int64) []int64 { return []int64{1, readKeys, g * readKeys} }},
	{"CREATE_TABLE of another shape", nil, func(g int) map[string]string {
		also := []string{"", ", 'x' AS note", ", CAST(1 AS INTEGER) AS note, CAST(2 AS BIGINT) AS more"}[g%3]
		return map[string]string{"SQL_ACTION": "CREATE_TABLE", "SOURCE_SQL": keysOf(g, g, also)}
	}, wholeGeneration, func(g int64) []int64 { return []int64{1, readKeys + g, g * (readKeys + g)} }},
	{"OVERWRITE_TABLE", []map[string]string{emptyOf("OVERWRITE_TABLE")}, func(g int) map[string]string {
		return map[string]string{"SQL_ACTION": "OVERWRITE_TABLE", "SOURCE_SQL": keysOf(g, g, "")}
	}, wholeGeneration, func(g int64) []int64 { return []int64{1, readKeys + g, g * (readKeys + g)} }},
	{"APPEND_TABLE", []map[string]string{emptyOf("APPEND_TABLE")}, func(g int) map[string]string {
		return map[string]string{"SQL_ACTION": "APPEND_TABLE", "SOURCE_SQL": keysOf(g, 0, "")}
	}, wholeGeneration, func(g int64) []int64 { return []int64{g, g * readKeys, g * (g + 1) / 2 * readKeys} }},
	{"SCD1_MERGE", []map[string]string{emptyOf("SCD1_MERGE")}, merging("SCD1_MERGE", func(g int) int { return g }),
		wholeGeneration, func(g int64) []int64 { return []int64{1, readKeys + g, g * (readKeys + g)} }},
	{"SCD2_MERGE", []map[string]string{emptyOf("SCD2_MERGE")}, merging("SCD2_MERGE", func(int) int { return 0 }),
		"SELECT max(gen), count(*), count(DISTINCT CASE WHEN active_flag = 'Y' THEN id END), sum(CASE WHEN active_flag = 'Y' THEN gen END), count(CASE WHEN active_flag = 'Y' THEN 1 END) FROM {t}",
		func(g int64) []int64 { return []int64{g * readKeys, readKeys, g * readKeys, readKeys} }},
	{"DELETE_ROWS", []map[string]string{emptyOf("SCD1_MERGE"), filled}, deleting("false"),
		"SELECT coalesce(max(CASE WHEN delete_flag = 'Y' THEN gen END), 0), count(CASE WHEN delete_flag = 'Y' THEN 1 END), count(*) FROM {t}",
		func(g int64) []int64 { return []int64{g * readKeys, (generations + 1) * readKeys} }},
	{"DELETE_ROWS, hard", []map[string]string{emptyOf("SCD1_MERGE"), filled}, deleting("true"),
		"SELECT min(gen) - 1, count(*) FROM {t}", func(g int64) []int64 { return []int64{(generations + 1 - g) * readKeys} }},
}

// filled has the rows of all generations, and of one more.
var filled = map[string]string{"SQL_ACTION": "SCD1_MERGE", "MERGE_KEY": "id", "MERGE_COMPARE_COLUMNS": "gen", "SOURCE_SQL": allGenerations()}

func allGenerations() string {
	var all []string
	for id := range (generations + 1) * readKeys {
		all = append(all, fmt.Sprintf("SELECT CAST(%d AS INTEGER) AS id, CAST(%d AS INTEGER) AS gen", id, id/readKeys+1))
	}
	return strings.Join(all, "\nUNION ALL ")
}

func deleting(hard string) func(int) map[string]string {
	return func(g int) map[string]string {
		return map[string]string{"SQL_ACTION": "DELETE_ROWS", "MERGE_KEY": "gen", "HARD_DELETE": hard, "SOURCE_SQL": fmt.Sprintf("SELECT CAST(%d AS INTEGER) AS gen", g)}
	}
}

// readers lets another connection look at the target in a loop while each action writes it.
func readers(t *testing.T, env *handlers.Env, backend Backend) {
	for _, c := range readCases {
		t.Run(c.name, func(t *testing.T) {
			backend.mayRunAside(t)
			b := newBench(t, env, backend)
			write := func(params map[string]string) {
				own := maps.Clone(params)
				own["TARGET_OBJECT"] = b.target()
				if got := b.attempt(b.request(Request{Action: own["SQL_ACTION"]}), own, nil, false); got.err != nil {
					b.Fatal(got.err)
				}
			}
			for _, params := range c.before {
				write(params)
			}
			var written atomic.Int64
			write(c.write(1))
			written.Store(1)
			look, err := b.env.Warehouse.Session(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			failed := make(chan error, 1)
			looks := 0
			go func() {
				defer func() { _ = look.Close() }()
				var err error
				for ; err == nil && ctx.Err() == nil; looks++ {
					err = b.lookOnce(look, c, &written)
				}
				failed <- err
			}()
			for g := 2; g <= generations && len(failed) == 0; g++ {
				write(c.write(g))
				written.Store(int64(g))
			}
			stop()
			if err := <-failed; err != nil {
				b.Errorf("look %d: %v", looks, err)
			}
			if looks < 2 {
				b.Errorf("the reader looked only %d time(s)", looks)
			}
			b.Logf("%d looks", looks)
		})
	}
}

// lookOnce reads once. What it sees may be newer than what was written when it began, never older.
func (b *bench) lookOnce(s warehouses.Session, c readCase, written *atomic.Int64) error {
	least := written.Load()
	rows, err := s.Rows(b.Context(), warehouses.SQL(strings.ReplaceAll(c.look, "{t}", b.target())), 1)
	if err != nil {
		if stale := b.backend.Stale; stale != "" && strings.Contains(err.Error(), stale) {
			b.Logf("after generation %d the reader was told %s, and looks again", least, stale)
			return nil
		}
		return err
	}
	generation, err := strconv.ParseInt(rows[0][0], 10, 64)
	if err != nil {
		return fmt.Errorf("after generation %d the reader saw %v", least, rows[0])
	}
	want := []string{rows[0][0]}
	for _, n := range c.expect(generation) {
		want = append(want, strconv.FormatInt(n, 10))
	}
	if generation < least || strings.Join(want, " ") != strings.Join(rows[0], " ") {
		return fmt.Errorf("after generation %d the reader saw %v, which is not generation %d: %v", least, rows[0], generation, want)
	}
	return nil
}

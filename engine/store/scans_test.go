package store_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/engine/store/storetest"
)

// whole are the statements that may read a table of what happened from end to end: people ask for what they read, by time.
var whole = []string{"actions", "interventions", "changes", "changes_of_pipeline", "notifications", "undelivered"}

var (
	parameter = regexp.MustCompile(`\$(\d+)`)
	reading   = regexp.MustCompile(`^SCAN (\w+)$`)
)

// TestHistoryIsNotRead asks SQLite how it would run each statement: those that run on the way of a run find their rows of
// what happened by an index, however much has happened.
func TestHistoryIsNotRead(t *testing.T) {
	s := storetest.SQLite(t).Migrated().Store()
	explained := 0
	for name, query := range s.Queries() {
		most := 0
		for _, found := range parameter.FindAllStringSubmatch(query, -1) {
			n, err := strconv.Atoi(found[1])
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, n)
		}
		rows, err := s.Backend().Reader.Query("EXPLAIN QUERY PLAN "+query, make([]any, most)...)
		if err != nil {
			continue // a part of a statement
		}
		explained++
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			found := reading.FindStringSubmatch(detail)
			if found == nil || slices.Contains(whole, name) || !strings.Contains(query, "WHERE") {
				continue
			}
			if table := tableOf(query, found[1]); strings.Contains(table, "AUD_") {
				t.Errorf("%s reads all of %s: %s", name, table, detail)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if explained < 120 {
		t.Errorf("only %d statements were explained", explained)
	}
}

// tableOf is the table that a statement calls by an alias; the alias when there is none.
func tableOf(query, alias string) string {
	if found := regexp.MustCompile(`(\w+) ` + alias + `(?:[^.\w]|$)`).FindStringSubmatch(query); found != nil {
		return found[1]
	}
	return alias
}

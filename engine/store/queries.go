package store

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"
)

//go:embed queries
var queryFiles embed.FS

// words are what {{word}} in a statement becomes. Where the databases need more than another word, the statement itself
// is in queries/sqlite and queries/postgres.
var words = map[Dialect]map[string]string{
	SQLite: {
		"now":         `(strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z')`,
		"timestamp":   "TEXT",
		"date":        "TEXT",
		"json":        "TEXT",
		"for_update":  "", // the one writer holds the whole database
		"for_share":   "",
		"skip_locked": "",
	},
	Postgres: {
		"now":         "statement_timestamp()",
		"timestamp":   "timestamptz",
		"date":        "date",
		"json":        "jsonb",
		"for_update":  "FOR UPDATE",
		"for_share":   "FOR SHARE",
		"skip_locked": "FOR UPDATE SKIP LOCKED",
	},
}

// later is {{now+$N}}: the parameter's seconds from now.
var later = map[Dialect]string{
	SQLite:   `(strftime('%Y-%m-%dT%H:%M:%f', 'now', printf('%+f seconds', ${1})) || '000Z')`,
	Postgres: `(statement_timestamp() + ${1} * interval '1 second')`,
}

var (
	laterPattern = regexp.MustCompile(`\{\{now\+(\$\d+)\}\}`)
	wordPattern  = regexp.MustCompile(`\{\{(\w+)\}\}`)
	commentLine  = regexp.MustCompile(`(?m)^--.*\n?`)
)

// loaded keeps the statements of a dialect and schema.
var loaded sync.Map

func queriesOf(d Dialect, schema string) map[string]string {
	key := [2]string{string(d), schema}
	if known, ok := loaded.Load(key); ok {
		return known.(map[string]string)
	}
	queries, _ := loaded.LoadOrStore(key, loadQueries(d, schema))
	return queries.(map[string]string)
}

// loadQueries reads the blocks "-- name: x" of the dialect. {{x}} in a statement is a word, the schema or another block.
func loadQueries(d Dialect, schema string) map[string]string {
	blocks := map[string]string{}
	for _, folder := range []string{"queries", "queries/" + string(d)} {
		files, err := fs.Glob(queryFiles, folder+"/*.sql")
		if err != nil {
			panic(err)
		}
		for _, file := range files {
			text, err := queryFiles.ReadFile(file)
			if err != nil {
				panic(err)
			}
			for _, block := range strings.Split(string(text), "-- name: ")[1:] {
				name, query, _ := strings.Cut(block, "\n")
				if _, ok := blocks[name]; ok {
					panic(fmt.Sprintf("%s: query %s exists twice", file, name))
				}
				blocks[name] = strings.TrimSpace(commentLine.ReplaceAllString(query, ""))
			}
		}
	}
	var fill func(string) string
	fill = func(query string) string {
		query = laterPattern.ReplaceAllString(query, later[d])
		return wordPattern.ReplaceAllStringFunc(query, func(found string) string {
			name := strings.Trim(found, "{}")
			if name == "schema" {
				return schema
			}
			if word, ok := words[d][name]; ok {
				return word
			}
			block, ok := blocks[name]
			if !ok {
				panic("no word or query is named " + name)
			}
			return fill(block)
		})
	}
	queries := make(map[string]string, len(blocks))
	for name, query := range blocks {
		queries[name] = fill(query)
	}
	return queries
}

func (s *Store) query(name string) string {
	query, ok := s.queries[name]
	if !ok {
		panic("no query is named " + name)
	}
	return query
}

package warehousetest

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/etl-craft/etl-craft/handlers"
)

//go:embed testdata/hash_values.csv
var hashFile []byte

// hashValue is one line of testdata/hash_values.csv, whose digests were made outside of Go and of any database.
type hashValue struct {
	column string
	kind   Kind
	value  *string
	digest string
}

// knownRow is a row of several values with its digest.
type knownRow struct {
	columns []Column
	values  []*string
	digest  string
}

var knownRows = []knownRow{
	{[]Column{{"a", "int", "INTEGER"}, {"b", "text", "VARCHAR"}, {"c", "text", "VARCHAR"}}, []*string{text("1"), text("abc"), nil}, "4a45df011cddb1fb5cf13b0b150c5a3d"},
	{[]Column{{"a", "text", "VARCHAR"}, {"b", "text", "VARCHAR"}}, []*string{text(""), nil}, "4448311de120289ec20441c12fe51410"},
	{[]Column{{"a", "text", "VARCHAR"}, {"b", "text", "VARCHAR"}}, []*string{nil, text("")}, "fcf4f22a8f65f7a7bd57afedcaf2ea6d"},
	{[]Column{{"a", "text", "VARCHAR"}, {"b", "bool", "BOOLEAN"}, {"c", "date", "DATE"}, {"d", "timestamptz", "TIMESTAMP WITH TIME ZONE"}, {"e", "decimal(6,2)", "DECIMAL(6,2)"}},
		[]*string{text("é😀"), text("true"), text("2026-09-01"), text("2026-09-01T03:04:05.123456+02:00"), text("12.3")}, "e8c336e2573ba14ffd787ee90e7a8e5d"},
}

// hashTypes are the types of the file's columns that every warehouse has.
var hashTypes = map[string]string{
	"text": "VARCHAR", "latin": "VARCHAR", "bool": "BOOLEAN", "date": "DATE", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT",
	"ts": "TIMESTAMP", "tstz": "TIMESTAMP WITH TIME ZONE", "dec1_0": "DECIMAL(1,0)", "dec12_2": "DECIMAL(12,2)", "dec18_6": "DECIMAL(18,6)",
	"dec38_0": "DECIMAL(38,0)", "dec38_10": "DECIMAL(38,10)", "dec38_38": "DECIMAL(38,38)", "uuid": "UUID",
	"date_inf": "DATE", "ts_inf": "TIMESTAMP", "tstz_inf": "TIMESTAMP WITH TIME ZONE",
}

func readHashValues() ([]hashValue, error) {
	lines, err := csv.NewReader(bytes.NewReader(hashFile)).ReadAll()
	if err != nil {
		return nil, err
	}
	var values []hashValue
	for _, l := range lines[1:] {
		h := hashValue{column: l[0], kind: Kind(l[1]), digest: l[5]}
		var value *string
		var tail string
		times, err := strconv.Atoi(l[3])
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(l[2]), &value); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(l[4]), &tail); err != nil {
			return nil, err
		}
		if value != nil {
			h.value = text(strings.Repeat(*value, times) + tail)
		}
		values = append(values, h)
	}
	return values, nil
}

// hashValues stores every value of the file with a merge and reads its hash back.
func hashValues(t *testing.T, env *handlers.Env, backend Backend) {
	all, err := readHashValues()
	if err != nil {
		t.Fatal(err)
	}
	byColumn := map[string][]hashValue{}
	var columns []string
	for _, v := range all {
		if byColumn[v.column] == nil {
			columns = append(columns, v.column)
		}
		byColumn[v.column] = append(byColumn[v.column], v)
	}
	for _, column := range columns {
		typ := hashTypes[column]
		if own, ok := backend.HashTypes[column]; ok {
			typ = own
		}
		if typ == "" || !backend.has(column) {
			continue
		}
		t.Run(column, func(t *testing.T) {
			backend.mayRunAside(t)
			b := newBench(t, env, backend)
			values := byColumn[column]
			columns := []Column{{"id", "int", "INTEGER"}, {"v", values[0].kind, typ}}
			var rows []Row
			for i, v := range values {
				rows = append(rows, Row{"id": id(int64(i)), "v": v.value})
			}
			b.storeHashes(columns, []string{"v"}, rows)
			for i, v := range values {
				if got := b.hashStored(i); got != v.digest {
					t.Errorf("%s %.60s: hash %s, want %s", typ, plain(v.value), got, v.digest)
				}
			}
		})
	}
	for n, k := range knownRows {
		t.Run(fmt.Sprintf("row_%d", n+1), func(t *testing.T) {
			backend.mayRunAside(t)
			b := newBench(t, env, backend)
			row := Row{"id": id(0)}
			var compare []string
			for i, c := range k.columns {
				row[c.Name] = k.values[i]
				compare = append(compare, c.Name)
			}
			b.storeHashes(append([]Column{{"id", "int", "INTEGER"}}, k.columns...), compare, []Row{row})
			if got := b.hashStored(0); got != k.digest {
				t.Errorf("hash %s, want %s", got, k.digest)
			}
		})
	}
}

func (b *bench) storeHashes(columns []Column, compare []string, rows []Row) {
	b.Helper()
	q := Request{Action: "SETUP_TABLE", SetupFor: "SCD1_MERGE", Columns: columns, Compare: compare}
	for _, q := range []Request{q, {Action: "SCD1_MERGE", Keys: []string{"id"}, Compare: compare, Columns: columns, Rows: rows}} {
		q = b.request(q)
		if got := b.attempt(q, b.params(q), nil, false); got.err != nil {
			b.Fatal(got.err)
		}
	}
}

func (b *bench) hashStored(id int) string {
	b.Helper()
	return b.value(fmt.Sprintf("SELECT hash_key FROM %s WHERE id = %d", b.target(), id))
}

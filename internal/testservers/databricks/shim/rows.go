package main

import "fmt"

// A page is a TFetchResultsResp: 2 is whether there are more rows, 3.3 are the columns, each with one field for its type, in
// which 1 are the values.

// sayWhetherMore sets what Spark always leaves false.
func sayWhetherMore(page *tree, most int64) {
	n := int64(rows(page))
	page.set(tBool, 2, n > 0 && n >= most)
}

func rows(page *tree) int { return len(column(page, 0)) }

func column(page *tree, i int) []any {
	columns := page.list(3, 3)
	if columns == nil || i >= len(columns.values) {
		return nil
	}
	c := columns.values[i].(*tree)
	if len(c.fields) == 0 {
		return nil
	}
	typed, _ := c.fields[0].v.(*tree)
	if values := typed.list(1); values != nil {
		return values.values
	}
	return nil
}

// cell is a value as text.
func cell(page *tree, i, row int) string {
	values := column(page, i)
	if row >= len(values) {
		return ""
	}
	if b, ok := values[row].([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(values[row])
}

func firstColumn(columns *tree) string {
	description := columns.list(2, 1)
	if description == nil || len(description.values) == 0 {
		return ""
	}
	return description.values[0].(*tree).text(1)
}

const affectedColumn = "num_affected_rows"

// affected reads the column that UPDATE, DELETE and MERGE of Delta answer with.
func affected(columns, page *tree) (int64, bool) {
	if firstColumn(columns) != affectedColumn || rows(page) != 1 {
		return 0, false
	}
	n, ok := column(page, 0)[0].(int64)
	return n, ok
}

// countColumns and countPage are the result of an INSERT on Databricks.
func countColumns() *tree {
	columns := &list{t: tList, of: tStruct}
	for i, name := range []string{affectedColumn, "num_inserted_rows"} {
		bigint := st(tStruct, 1, st(tI32, 1, int32(4)))
		types := st(tList, 1, &list{t: tList, of: tStruct, values: []any{bigint}})
		columns.values = append(columns.values, st(tString, 1, []byte(name)).setStruct(2, types).set(tI32, 3, int32(i+1)))
	}
	return st(tStruct, 1, st(tI32, 1, int32(0))).setStruct(2, st(tList, 1, columns))
}

func countPage(n int64) *tree {
	count := st(tStruct, 5, st(tList, 1, &list{t: tList, of: tI64, values: []any{n}}).set(tString, 2, []byte{0}))
	set := st(tI64, 1, int64(0)).set(tList, 2, &list{t: tList, of: tStruct})
	set.set(tList, 3, &list{t: tList, of: tStruct, values: []any{count, count}})
	return st(tStruct, 1, st(tI32, 1, int32(0))).set(tBool, 2, false).setStruct(3, set)
}

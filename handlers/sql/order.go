package sql

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/etl-craft/etl-craft/internal/nearest"
	"github.com/etl-craft/etl-craft/warehouses"
)

// orderTerm is one term of MERGE_DEDUPE_ORDER.
type orderTerm struct {
	column     string
	descending bool
	nullsFirst bool
}

// parseOrder reads "updated_at DESC NULLS FIRST, id".
func parseOrder(d *warehouses.Dialect, text string) ([]orderTerm, error) {
	var terms []orderTerm
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '|' }) {
		words := strings.Fields(part)
		if len(words) == 0 || !plainName.MatchString(words[0]) {
			return nil, fmt.Errorf("%q is not a column", strings.TrimSpace(part))
		}
		term := orderTerm{column: d.FoldName(words[0])}
		switch rest := strings.ToUpper(strings.Join(words[1:], " ")); rest {
		case "", "ASC", "NULLS LAST", "ASC NULLS LAST":
		case "DESC", "DESC NULLS LAST":
			term.descending = true
		case "NULLS FIRST", "ASC NULLS FIRST":
			term.nullsFirst = true
		case "DESC NULLS FIRST":
			term.descending, term.nullsFirst = true, true
		default:
			return nil, fmt.Errorf("%q is not ASC, DESC, NULLS FIRST or NULLS LAST", strings.Join(words[1:], " "))
		}
		terms = append(terms, term)
	}
	if len(terms) == 0 {
		return nil, errors.New("it names no column")
	}
	return terms, nil
}

// render orders text by its bytes, so that every warehouse picks the same row.
func (o orderTerm) render(d *warehouses.Dialect, t warehouses.Type) warehouses.SQL {
	s := d.Ident(o.column)
	if t.Kind == warehouses.Text || t.Kind == warehouses.Char {
		s += d.ByteOrder
	}
	if o.descending {
		s += " DESC"
	}
	if o.nullsFirst {
		return s + " NULLS FIRST"
	}
	return s + " NULLS LAST"
}

func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func nearestFile(root *os.Root, file string) string {
	var known []string
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			known = append(known, path)
		}
		return nil
	})
	if n := nearest.Of(file, known); n != "" {
		return "did you mean " + n + "?"
	}
	return "create it under sql_files/"
}

package store

import (
	"fmt"
	"time"
)

// timeLayout is how SQLite holds instants.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// scanFunc is a destination of Scan.
type scanFunc func(any) error

func (f scanFunc) Scan(v any) error { return f(v) }

func asText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	}
	return "", fmt.Errorf("a text is expected, not %T", v)
}

func asTime(v any) (time.Time, error) {
	if t, ok := v.(time.Time); ok {
		return t.UTC(), nil
	}
	text, err := asText(v)
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(timeLayout, text)
}

// text reads NULL as "".
func text(to *string) scanFunc {
	return func(v any) (err error) {
		*to, err = asText(v)
		return err
	}
}

// instant reads a time that is never NULL.
func instant(to *time.Time) scanFunc {
	return func(v any) (err error) {
		*to, err = asTime(v)
		return err
	}
}

// instantOrNil reads NULL as nil.
func instantOrNil(to **time.Time) scanFunc {
	return func(v any) error {
		*to = nil
		if v == nil {
			return nil
		}
		t, err := asTime(v)
		*to = &t
		return err
	}
}

// day reads a date as YYYY-MM-DD.
func day(to *string) scanFunc {
	return func(v any) (err error) {
		if t, ok := v.(time.Time); ok {
			*to = t.Format(time.DateOnly)
			return nil
		}
		*to, err = asText(v)
		return err
	}
}

// yes reads Y as true, anything else as false.
func yes(to *bool) scanFunc {
	return func(v any) error {
		flag, err := asText(v)
		*to = flag == "Y"
		return err
	}
}

// yesOrNil reads NULL as nil.
func yesOrNil(to **bool) scanFunc {
	return func(v any) error {
		*to = nil
		if v == nil {
			return nil
		}
		var flag bool
		*to = &flag
		return yes(&flag)(v)
	}
}

// counts are the destinations of the six counts in their usual order.
func counts(c *Counts) []any {
	return []any{&c.Source, &c.Target, &c.Insert, &c.Update, &c.Delete, &c.Written}
}

func countArgs(c Counts) []any {
	return []any{c.Source, c.Target, c.Insert, c.Update, c.Delete, c.Written}
}

// orNull binds the zero value as NULL.
func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

func flag(yes bool) string {
	if yes {
		return "Y"
	}
	return "N"
}

func timeText(t time.Time) string { return t.UTC().Format(timeLayout) }

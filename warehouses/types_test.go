package warehouses

import "testing"

func TestKeptApart(t *testing.T) {
	integer, bigint := Type{SQL: "INTEGER", Kind: Integer}, Type{SQL: "BIGINT", Kind: Integer}
	decimal := func(precision, scale int) Type {
		return Type{SQL: SQL("DECIMAL" + string(rune('0'+precision)) + string(rune('0'+scale))), Kind: Decimal, Precision: precision, Scale: scale}
	}
	numeric := Type{SQL: "numeric", Kind: Decimal, Scale: -1}
	double, text, char := Type{SQL: "DOUBLE", Kind: Float}, Type{SQL: "VARCHAR", Kind: Text}, Type{SQL: "CHAR(9)", Kind: Char}
	date, timestamp := Type{SQL: "DATE", Kind: DateType}, Type{SQL: "TIMESTAMP", Kind: Timestamp}
	instant, uuid := Type{SQL: "TIMESTAMPTZ", Kind: TimestampTZ}, Type{SQL: "UUID", Kind: UUID}
	boolean, clock, blob := Type{SQL: "BOOLEAN", Kind: Boolean}, Type{SQL: "TIME", Kind: TimeOfDay}, Type{SQL: "BLOB"}
	for _, c := range []struct {
		from, to Type
		want     bool
	}{
		{integer, bigint, true}, {bigint, integer, true}, // what does not fit is an error
		{decimal(5, 0), integer, true}, {decimal(5, 1), integer, false}, {numeric, bigint, false}, {double, bigint, false},
		{text, integer, false}, {boolean, integer, false}, {date, integer, false},
		{integer, decimal(9, 2), true}, {decimal(9, 2), decimal(9, 2), true}, {decimal(9, 2), decimal(9, 4), true},
		{decimal(9, 4), decimal(9, 2), false}, {numeric, decimal(9, 2), false}, {decimal(9, 2), numeric, true}, {integer, numeric, true},
		{numeric, numeric, true}, {double, decimal(9, 2), false},
		{double, double, true}, {bigint, double, false}, {text, double, false}, {Type{SQL: "REAL", Kind: Float}, double, false},
		{integer, text, true}, {double, text, true}, {timestamp, text, true}, {char, text, true}, {blob, text, true},
		{text, char, true}, {integer, char, false}, {text, uuid, true}, {blob, uuid, false},
		{timestamp, date, false}, {text, date, false}, {date, date, true},
		{date, timestamp, true}, {instant, timestamp, true}, {timestamp, instant, true}, {text, instant, false}, {clock, timestamp, false},
		{timestamp, clock, false}, {clock, clock, true}, {integer, boolean, false}, {text, blob, false}, {blob, Type{SQL: "JSON"}, true},
		{Type{SQL: "INTEGER", Kind: Integer, Untyped: true}, date, true},
	} {
		if got := c.from.KeptApart(c.to); got != c.want {
			t.Errorf("%s as %s: %t", c.from.SQL, c.to.SQL, got)
		}
	}
}

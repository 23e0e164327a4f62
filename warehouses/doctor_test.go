package warehouses

import (
	"testing"
	"time"
)

func TestKnownDefects(t *testing.T) {
	d := &Dialect{Defects: []Defect{
		{From: "14", Below: "14.4", What: "loses"},
		{Below: "14", What: "old"},
		{From: "14", Below: "15", Since: time.Date(2026, 11, 13, 0, 0, 0, 0, time.UTC), What: "ended"},
	}}
	before, after := time.Date(2026, 11, 12, 23, 0, 0, 0, time.UTC), time.Date(2026, 11, 13, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		version string
		now     time.Time
		want    string
	}{
		{"14.0", before, "loses"},
		{"14.3", before, "loses"},
		{"14.4", before, ""},
		{"14.20", before, ""},
		{"14.20", after, "ended"},
		{"14.3", after, "losesended"},
		{"14beta1", before, "loses"},
		{"13.22", after, "old"},
		{"9.6.24", after, "old"},
		{"15", after, ""},
		{"v18.1", after, ""},
		{"19beta1", after, ""},
	} {
		got := ""
		for _, defect := range d.KnownDefects(c.version, c.now) {
			got += defect.What
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.version, got, c.want)
		}
	}
}

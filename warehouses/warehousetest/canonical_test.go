package warehousetest

import "testing"

func TestDigestOfFile(t *testing.T) {
	values, err := readHashValues()
	if err != nil {
		t.Fatal(err)
	}
	if len(values) < 300 {
		t.Fatalf("%d values", len(values))
	}
	for _, v := range values {
		if got := digestOf(t, []Kind{v.kind}, []*string{v.value}); got != v.digest {
			t.Errorf("%s %.60s: %s, want %s", v.kind, plain(v.value), got, v.digest)
		}
	}
}

func TestDigestOfKnownRows(t *testing.T) {
	for _, k := range knownRows {
		var kinds []Kind
		for _, c := range k.columns {
			kinds = append(kinds, c.Kind)
		}
		if got := digestOf(t, kinds, k.values); got != k.digest {
			t.Errorf("%s, want %s", got, k.digest)
		}
	}
}

func digestOf(t *testing.T, kinds []Kind, values []*string) string {
	t.Helper()
	var row []*string
	for i, v := range values {
		if v == nil {
			row = append(row, nil)
			continue
		}
		c, err := canonical(kinds[i], *v)
		if err != nil {
			t.Error(err)
		}
		row = append(row, &c)
	}
	return digest(row)
}

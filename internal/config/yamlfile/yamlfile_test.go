package yamlfile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/etl-craft/etl-craft/internal/config/yamlfile"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func read(text string) (*yamlfile.File, map[string]string) {
	f := &yamlfile.File{Name: "f.yml", Code: fault.FileInvalid}
	values := map[string]string{}
	for _, field := range f.Names(f.Root([]byte(text)), "the file") {
		if value, ok := f.Text(field.Value, field.Name); ok {
			values[field.Name] = value
		}
	}
	return f, values
}

func TestTextIsAsWritten(t *testing.T) {
	f, got := read("a: yes\nb: 1.0\nc: 0o17\nd: ~\ne: 'x'\nf: \"\\u00e9\"\ng: |\n  l1\n\n  l2\nh: 2026-09-01\ni: &x v\nj: *x\nk: !!str 5\nl: 1_000\n")
	want := map[string]string{"a": "yes", "b": "1.0", "c": "0o17", "d": "~", "e": "x", "f": "é", "g": "l1\n\nl2\n",
		"h": "2026-09-01", "i": "v", "j": "v", "k": "5", "l": "1_000"}
	if diff := cmp.Diff(want, got); diff != "" || len(f.Problems) > 0 {
		t.Errorf("%s %v", diff, f.Problems)
	}
}

func TestColumnsCountCharacters(t *testing.T) {
	f, _ := read("éé: 1\nüü: { ä: 1, b: 2 }\n'ß': x\nß: y\n")
	want := []string{"f.yml:2:5: üü must be one value, not a mapping; write one value", "f.yml:4:1: ß is set twice in the file, first in line 3; remove one of them"}
	yamlfile.Sort(f.Problems)
	if diff := cmp.Diff(want, yamlfile.Lines(f.Problems)); diff != "" {
		t.Error(diff)
	}
}

func TestMergeOrder(t *testing.T) {
	_, got := read("a: &a { k: a, l: a, m: a }\nb: &b { k: b, n: b }\nk: own\n<<: [*b, *a, *b]\n")
	want := map[string]string{"k": "own", "n": "b", "l": "a", "m": "a"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Each mapping merges the one before many times: read naively that is 10^40 fields.
func TestMergesDoNotExplode(t *testing.T) {
	var b strings.Builder
	b.WriteString("m0: &m0 { deep: x }\n")
	for i := 1; i <= 40; i++ {
		fmt.Fprintf(&b, "m%d: &m%d { <<: [%s] }\n", i, i, strings.Repeat(fmt.Sprintf("*m%d, ", i-1), 10))
	}
	b.WriteString("<<: *m40\n")
	_, got := read(b.String())
	if got["deep"] != "x" {
		t.Errorf("got %v", got)
	}
}

package nearest_test

import (
	"testing"

	"github.com/etl-craft/etl-craft/internal/nearest"
)

func TestOf(t *testing.T) {
	keys := []string{"type", "path", "host", "port", "password", "profile", "max_parallel_tasks"}
	for _, c := range []struct{ name, want string }{
		{"pasword", "password"},
		{"porfile", "profile"},
		{"tpye", "type"},
		{"MAX_PARALEL_TASKS", "max_parallel_tasks"},
		{"Profile", "profile"},
		{"prot", "port"},
		{"warehouse", ""},
		{"x", ""},
		{"", ""},
	} {
		if got := nearest.Of(c.name, keys); got != c.want {
			t.Errorf("Of(%q) = %q, want %q", c.name, got, c.want)
		}
	}
	if got := nearest.Of("ab", []string{"ax", "ay"}); got != "ax" {
		t.Errorf("a tie gives %q, want the first", got)
	}
	if got := nearest.Of("anything", nil); got != "" {
		t.Errorf("nothing known gives %q", got)
	}
}

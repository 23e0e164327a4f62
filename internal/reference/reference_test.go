package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCommittedPages fails when docs/reference is not what the code says.
func TestCommittedPages(t *testing.T) {
	want, err := pages()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "..", "docs", "reference")
	for name, text := range want {
		committed, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Errorf("%v; run: go run ./internal/reference", err)
			continue
		}
		if diff := cmp.Diff(string(committed), text); diff != "" {
			t.Errorf("docs/reference/%s is out of date; run: go run ./internal/reference\n%s", name, diff)
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDependencies fails when docs/dependencies.md lacks a module that go.mod requires directly, or its version.
func TestDependencies(t *testing.T) {
	root := filepath.Join("..", "..")
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mod)) {
		words := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(words) != 2 || !strings.HasPrefix(words[1], "v") {
			continue // not a requirement, or an indirect one, which has a comment
		}
		if want := "| `" + words[0] + "` | " + words[1] + " |"; !strings.Contains(string(page), want) {
			t.Errorf("docs/dependencies.md lacks %s", want)
		}
	}
}

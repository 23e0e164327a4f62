// Command reference writes the pages of docs/reference from the code: commands, parameters, error codes, keys of the two kinds
// of YAML files and the columns that the engine adds. Run it in the repository's root:
//
//	go run ./internal/reference
//
// A test fails when the committed pages differ.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := write(filepath.Join("docs", "reference")); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// write writes every page into dir, which must exist: the wrong working directory is not to get a docs folder.
func write(dir string) error {
	pages, err := pages()
	if err != nil {
		return err
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pages are all pages by file name.
func pages() (map[string]string, error) {
	columns, err := columnsPage()
	if err != nil {
		return nil, err
	}
	commands, err := commandsPage()
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"commands.md":       commands,
		"parameters.md":     parametersPage(),
		"errors.md":         errorsPage(),
		"configuration.md":  configurationPage(),
		"columns.md":        columns,
		"pipeline-files.md": pipelineFilesPage(),
	}, nil
}

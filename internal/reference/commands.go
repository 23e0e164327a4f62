package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// commandsPage is what the built program says of itself: package main cannot be imported.
func commandsPage() (string, error) {
	dir, err := os.MkdirTemp("", "reference")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "etl-craft")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/etl-craft/etl-craft/cmd/etl-craft").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	help := func(command ...string) (string, error) {
		out, err := exec.Command(program, append(command, "--help")...).Output()
		return strings.TrimSpace(string(out)), err
	}
	all, err := help()
	if err != nil {
		return "", err
	}
	p := newPage("Commands", "What `etl-craft --help` and `etl-craft COMMAND --help` print. Exit codes are in [errors.md](errors.md).")
	fmt.Fprintf(p, "\n```\n%s\n```\n", all)
	_, list, found := strings.Cut(all, "\nCommands:\n")
	if !found {
		return "", errors.New("the program's help lists no commands")
	}
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		command := strings.Fields(line)[0]
		text, err := help(command)
		if err != nil {
			return "", fmt.Errorf("help of %s: %w", command, err)
		}
		text, _, _ = strings.Cut(text, "\n\nFlags of every command:") // they stand above
		p.section(command, "```\n"+text+"\n```")
	}
	return p.String(), nil
}

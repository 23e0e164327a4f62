package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/internal/demo"
)

// initDocument is etl-craft/init/1.
type initDocument struct {
	Schema string `json:"schema"`
	Dir    string `json:"dir"` // absolute
}

func (p *program) initCommand() *cli.Command {
	return &cli.Command{
		Name: "init", Usage: "writes a small working project into a folder", ArgsUsage: "[DIR]",
		Description: "etl-craft init my-project\netl-craft init",
		Action: func(c *cli.Context) error {
			dir := c.Args().First()
			if dir == "" {
				dir = "."
			}
			if err := demo.WriteInit(dir); err != nil {
				return err
			}
			absolute, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			return p.answer(initDocument{"etl-craft/init/1", absolute}, func() string {
				return fmt.Sprintf("A project with one pipeline, SHOP, is in %s. Next:\n\n", absolute) +
					commandLines(enter(dir), "etl-craft migrate", "etl-craft apply", "etl-craft plan --pipeline SHOP", "etl-craft run --pipeline SHOP")
			}, nil)
		},
	}
}

// enter is the command that makes dir the working directory, "" when it is already.
func enter(dir string) string {
	if filepath.Clean(dir) == "." {
		return ""
	}
	return "cd " + shellWord(dir)
}

func commandLines(commands ...string) string {
	var b strings.Builder
	for _, c := range commands {
		if c != "" {
			b.WriteString("  " + c + "\n")
		}
	}
	return b.String()
}

// shellWord quotes a word where the shell would read it as more than one.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:,@%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// programHelp is the help without a command.
func programHelp(commands []*cli.Command) string {
	var b strings.Builder
	b.WriteString("etl-craft runs pipelines of SQL tasks in a warehouse and keeps their history.\n\n")
	b.WriteString("Usage:\n  etl-craft COMMAND [flags]\n\nExamples:\n")
	b.WriteString("  etl-craft demo\n  etl-craft init my-project\n  etl-craft run --pipeline SALES\n\nCommands:\n")
	var rows [][2]string
	for _, c := range commands {
		rows = append(rows, [2]string{c.Name, c.Usage})
	}
	b.WriteString(columns(rows))
	b.WriteString("\nFlags of every command:\n" + flagLines(globalFlags()))
	b.WriteString("\netl-craft COMMAND --help tells more about a command.\n")
	return b.String()
}

// commandHelp is one sentence, examples, flags. A command's Description holds its examples, one a line.
func commandHelp(c *cli.Command, name string) string {
	var b strings.Builder
	b.WriteString("etl-craft " + name + " " + c.Usage + ".\n\nUsage:\n  ")
	words := []string{"etl-craft", name}
	if len(c.Subcommands) > 0 {
		words = append(words, "COMMAND")
	}
	if c.ArgsUsage != "" {
		words = append(words, c.ArgsUsage)
	}
	b.WriteString(strings.Join(append(words, "[flags]"), " ") + "\n")
	if c.Description != "" {
		b.WriteString("\nExamples:\n  " + strings.ReplaceAll(strings.TrimSpace(c.Description), "\n", "\n  ") + "\n")
	}
	if len(c.Subcommands) > 0 {
		var rows [][2]string
		for _, sub := range c.Subcommands {
			rows = append(rows, [2]string{sub.Name, sub.Usage})
		}
		b.WriteString("\nCommands:\n" + columns(rows))
		return b.String()
	}
	if len(c.Flags) > 0 {
		b.WriteString("\nFlags:\n" + flagLines(c.Flags))
	}
	b.WriteString("\nFlags of every command:\n" + flagLines(globalFlags()))
	return b.String()
}

func flagLines(flags []cli.Flag) string {
	var rows [][2]string
	for _, f := range flags {
		documented := f.(cli.DocGenerationFlag)
		placeholder, usage := placeholder(documented.GetUsage())
		name := "--" + f.Names()[0]
		for _, alias := range f.Names()[1:] {
			if len(alias) == 1 {
				name = "-" + alias + ", " + name
			}
		}
		if documented.TakesValue() {
			name += " " + placeholder
		}
		if value := documented.GetValue(); documented.TakesValue() && value != "" && value != "0" {
			usage += " (default " + value + ")"
		}
		if required, ok := f.(cli.RequiredFlag); ok && required.IsRequired() {
			usage += " (required)"
		}
		rows = append(rows, [2]string{name, usage})
	}
	return columns(rows)
}

// placeholder is the word between backquotes, and the usage without them.
func placeholder(usage string) (string, string) {
	before, rest, ok := strings.Cut(usage, "`")
	if !ok {
		return "VALUE", usage
	}
	word, after, _ := strings.Cut(rest, "`")
	return word, before + word + after
}

func columns(rows [][2]string) string {
	width := 0
	for _, r := range rows {
		width = max(width, len(r[0]))
	}
	var b strings.Builder
	for _, r := range rows {
		b.WriteString("  " + r[0] + strings.Repeat(" ", width-len(r[0])+2) + r[1] + "\n")
	}
	return b.String()
}

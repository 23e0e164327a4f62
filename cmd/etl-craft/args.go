package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/nearest"
)

// call is a command line once it is understood.
type call struct {
	command *cli.Command // nil for the program's own help
	name    string       // "run", "config show"
	args    []string     // for the library: program, command, flags as --name=value, --, other arguments
	help    bool
	json    bool // --output json, known also when the rest is wrong
}

// given is a flag as it was written.
type given struct {
	written string // without its value
	flag    cli.Flag
	value   *string
}

// arrange finds command and flags in any order: flags may stand before the command, with underscores or hyphens, with
// one dash or two. The library takes flags only right behind their command.
func arrange(commands []*cli.Command, args []string) (call, error) {
	known := allFlags(commands)
	var flags []given
	var words []string
	var c call
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			words = append(words, args[i+1:]...)
			i = len(args)
			continue
		case len(arg) < 2 || arg[0] != '-':
			words = append(words, arg)
			continue
		}
		g := readFlag(known, arg)
		if g.written == "--help" || g.written == "-h" || g.written == "-help" {
			c.help = true
			continue
		}
		if takesValue(g.flag) && g.value == nil && i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
			i++
			g.value = &args[i]
		}
		if g.flag != nil && g.flag.Names()[0] == "output" && g.value != nil {
			c.json = *g.value == "json"
		}
		flags = append(flags, g)
	}
	if len(words) > 0 && words[0] == "help" {
		c.help, words = true, words[1:]
	}
	if i := slices.IndexFunc(flags, func(g given) bool { return g.written == "--version" }); i >= 0 && len(words) == 0 {
		words, flags = []string{"version"}, slices.Delete(flags, i, i+1)
	}
	if len(words) == 0 && (c.help || len(flags) == 0) {
		return c, nil
	}
	words, err := c.find(commands, flags, words)
	if err != nil || c.help {
		return c, err
	}
	if err := c.checkFlags(flags); err != nil {
		return c, err
	}
	c.args = append([]string{"etl-craft"}, strings.Fields(c.name)...)
	for _, g := range flags {
		arg := "--" + g.flag.Names()[0]
		if g.value != nil {
			arg += "=" + *g.value
		}
		c.args = append(c.args, arg)
	}
	c.args = append(append(c.args, "--"), words...)
	return c, c.checkWords(words)
}

// find sets the command that the words begin with and returns the words behind it.
func (c *call) find(commands []*cli.Command, flags []given, words []string) ([]string, error) {
	level := commands
	for len(level) > 0 {
		names := make([]string, len(level))
		for i, command := range level {
			names[i] = command.Name
		}
		if len(words) == 0 {
			if c.help {
				return nil, nil
			}
			for _, g := range flags {
				if g.flag == nil {
					return nil, unknownFlag(g, globalFlags(), "")
				}
			}
			return nil, fault.New(fault.Usage, "a command is missing: %s", strings.Join(prefixed(c.name, names), ", ")).
				WithHint("%s", strings.Join(strings.Fields("etl-craft help "+c.name), " "))
		}
		i := slices.Index(names, words[0])
		if i < 0 {
			err := fault.New(fault.Usage, "unknown command %q", strings.TrimSpace(c.name+" "+words[0]))
			if near := nearest.Of(words[0], names); near != "" {
				return nil, err.WithHint("did you mean etl-craft %s?", strings.TrimSpace(c.name+" "+near))
			}
			return nil, err.WithHint("etl-craft help")
		}
		c.command, c.name = level[i], strings.TrimSpace(c.name+" "+names[i])
		words, level = words[1:], level[i].Subcommands
	}
	return words, nil
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strings.TrimSpace(prefix + " " + name)
	}
	return out
}

// checkFlags refuses flags that the command does not take, that lack their value or have an empty one, and required ones that
// are missing.
func (c *call) checkFlags(flags []given) error {
	takes := append(slices.Clone(c.command.Flags), globalFlags()...)
	set := map[string]bool{}
	for i, g := range flags {
		j := slices.IndexFunc(takes, func(f cli.Flag) bool { return g.flag != nil && f.Names()[0] == g.flag.Names()[0] })
		switch {
		case j < 0:
			return unknownFlag(g, takes, c.name)
		case takesValue(takes[j]) && g.value == nil:
			return fault.New(fault.Usage, "%s needs a value", g.written).WithHint("etl-craft %s --help", c.name)
		case g.value != nil && *g.value == "": // an unset variable of a script: to take it as not given would run something else
			return fault.New(fault.Usage, "%s is empty", g.written).WithHint("leave it out, or give it a value: etl-craft %s --help", c.name)
		}
		flags[i].flag = takes[j]
		set[takes[j].Names()[0]] = true
	}
	for _, f := range c.command.Flags {
		if required, ok := f.(cli.RequiredFlag); ok && required.IsRequired() && !set[f.Names()[0]] {
			err := fault.New(fault.Usage, "--%s is missing", f.Names()[0])
			if f.Names()[0] == "pipeline" {
				return err.WithHint("etl-craft list")
			}
			return err.WithHint("etl-craft %s --help", c.name)
		}
	}
	return nil
}

func unknownFlag(g given, takes []cli.Flag, command string) error {
	var names []string
	for _, f := range takes {
		names = append(names, f.Names()[0])
	}
	err := fault.New(fault.Usage, "unknown flag %s", g.written)
	if command != "" {
		err = fault.New(fault.Usage, "%s has no flag %s", command, g.written)
	}
	if near := nearest.Of(canonical(g.written), names); near != "" {
		return err.WithHint("did you mean --%s?", near)
	}
	return err.WithHint("%s --help", strings.TrimSpace("etl-craft "+command))
}

// checkWords compares the arguments with what the command's ArgsUsage announces: "DIR", "[DIR]" or nothing. None may be empty.
func (c *call) checkWords(words []string) error {
	announced := strings.Fields(c.command.ArgsUsage)
	if len(words) > len(announced) {
		return fault.New(fault.Usage, "%s does not take the argument %q", c.name, words[len(announced)]).WithHint("etl-craft %s --help", c.name)
	}
	if len(words) < len(announced) && !strings.HasPrefix(announced[len(words)], "[") {
		return fault.New(fault.Usage, "%s needs the argument %s", c.name, announced[len(words)]).WithHint("etl-craft %s --help", c.name)
	}
	if i := slices.Index(words, ""); i >= 0 {
		return fault.New(fault.Usage, "the argument %s of %s is empty", strings.Trim(announced[i], "[]"), c.name).WithHint("etl-craft %s --help", c.name)
	}
	return nil
}

// readFlag splits an argument into flag and value. Its flag is nil when no command has it.
func readFlag(known map[string]cli.Flag, arg string) given {
	name, value, hasValue := strings.Cut(arg, "=")
	g := given{written: name, flag: known[canonical(name)]}
	if hasValue {
		g.value = &value
	}
	if g.flag == nil && len(arg) > 2 && arg[1] != '-' && known[arg[1:2]] != nil { // -ojson
		rest := strings.TrimPrefix(arg[2:], "=")
		return given{written: arg[:2], flag: known[arg[1:2]], value: &rest}
	}
	return g
}

// canonical is a flag's name as it is declared.
func canonical(written string) string {
	return strings.ReplaceAll(strings.TrimLeft(written, "-"), "_", "-")
}

// allFlags are the flags of every command by each of their names; a name means the same wherever it is taken.
func allFlags(commands []*cli.Command) map[string]cli.Flag {
	all := map[string]cli.Flag{}
	add := func(flags []cli.Flag) {
		for _, f := range flags {
			for _, name := range f.Names() {
				all[name] = f
			}
		}
	}
	add(globalFlags())
	for _, c := range commands {
		add(c.Flags)
		for _, sub := range c.Subcommands {
			add(sub.Flags)
		}
	}
	return all
}

func takesValue(f cli.Flag) bool {
	documented, ok := f.(cli.DocGenerationFlag)
	return ok && documented.TakesValue()
}

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/nearest"
)

// program is one call of the command line.
type program struct {
	out *screen // results
	err *screen // errors, logs and progress

	interrupts *interrupts
	json       bool // --output json
}

func newProgram(stdout, stderr *os.File) *program {
	return &program{out: newScreen(stdout), err: newScreen(stderr)}
}

// commands lists every command in the order of the help.
func (p *program) commands() []*cli.Command {
	return []*cli.Command{
		p.initCommand(), p.demoCommand(), p.migrateCommand(), p.applyCommand(), p.exportCommand(), p.validateCommand(),
		p.planCommand(), p.runCommand(), p.statusCommand(), p.explainCommand(), p.historyCommand(), p.listCommand(), p.graphCommand(), p.lineageCommand(),
		p.markCommand(), p.skipCommand(), p.cancelCommand(),
		p.pauseCommand(), p.resumeCommand(), p.reconcileCommand(), p.rehashCommand(), p.upgradeTargetsCommand(), p.doctorCommand(), p.auditCommand(), p.purgeCommand(), p.notificationsCommand(), p.locksCommand(), p.airflowCommand(), p.configCommand(), p.completionCommand(), p.versionCommand(),
	}
}

// globalFlags are taken by every command.
func globalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "configuration `FILE`, or its folder; else $ETL_CRAFT_CONFIG, else the nearest etl-craft.yml"},
		&cli.StringFlag{Name: "profile", Usage: "profile `NAME`; else $ETL_CRAFT_PROFILE, else the file's"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "`FORMAT` of the result: text or json"},
		&cli.StringFlag{Name: "log-level", Value: "info", Usage: "least `LEVEL` of log lines: debug, info, warn or error"},
		&cli.StringFlag{Name: "log-format", Value: "text", Usage: "`FORMAT` of log lines: text or json"},
		&cli.BoolFlag{Name: "no-color", Usage: "no colours; so does $NO_COLOR"},
	}
}

// run carries out the command that args name, without the program's own name, and returns the exit code.
func (p *program) run(args []string) int {
	commands := p.commands()
	call, err := arrange(commands, args)
	p.json = call.json
	if err != nil {
		return p.fail(err)
	}
	if call.command == nil {
		return p.fail(p.out.print(programHelp(commands)))
	}
	if call.help {
		return p.fail(p.out.print(commandHelp(call.command, call.name)))
	}
	p.interrupts = catchInterrupts()
	defer p.interrupts.end()

	for _, c := range commands {
		p.prepare(c)
	}
	app := &cli.App{
		Name: "etl-craft", Commands: commands, HideHelp: true, HideVersion: true,
		Writer: os.Stderr, ErrWriter: os.Stderr,
		ExitErrHandler: func(*cli.Context, error) {}, // the code below decides
	}
	return p.fail(app.RunContext(p.interrupts.ctx, call.args))
}

// prepare completes a command and its sub-commands with what all have in common.
func (p *program) prepare(c *cli.Command) {
	c.HideHelp = true
	c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return badValue(err) }
	for _, sub := range c.Subcommands {
		p.prepare(sub)
	}
	if c.Action == nil {
		return
	}
	c.Flags = append(c.Flags, globalFlags()...)
	c.Before = p.readGlobals
}

var invalidValue = regexp.MustCompile(`^invalid (boolean )?value ("(?:[^"\\]|\\.)*") for (?:flag )?-([a-z-]+):`)

// badValue says which flag has a value that is no number, or neither true nor false; arrange has found all other mistakes.
func badValue(err error) error {
	m := invalidValue.FindStringSubmatch(err.Error())
	switch {
	case m == nil:
		return fault.New(fault.Usage, "%w", err)
	case m[1] != "":
		return fault.New(fault.Usage, "--%s is %s; it takes true, false, or no value", m[3], m[2])
	}
	return fault.New(fault.Usage, "--%s is %s, not a whole number", m[3], m[2])
}

// readGlobals checks the global flags that have few values, and turns colours off when asked to.
func (p *program) readGlobals(c *cli.Context) error {
	for name, known := range map[string][]string{
		"output": {"text", "json"}, "log-level": {"debug", "info", "warn", "error"}, "log-format": {"text", "json"},
	} {
		if err := oneOf(name, c.String(name), known); err != nil {
			return err
		}
	}
	p.json = c.String("output") == "json"
	if c.Bool("no-color") {
		p.out.colour, p.err.colour = false, false
	}
	return nil
}

func oneOf(name, value string, known []string) error {
	for _, k := range known {
		if value == k {
			return nil
		}
	}
	err := fault.New(fault.Usage, "--%s is %q; it takes %s", name, value, strings.Join(known, ", "))
	if near := nearest.Of(value, known); near != "" {
		return err.WithHint("did you mean %s?", near)
	}
	return err
}

func logLevel(c *cli.Context) slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.String("log-level"))) // checked by readGlobals
	return level
}

// fail shows an error and returns the exit code.
func (p *program) fail(err error) int {
	if err == nil {
		return 0
	}
	if errors.Is(err, context.Canceled) && p.interrupts != nil && p.interrupts.ctx.Err() != nil && !fault.Has(err, fault.Interrupted) {
		err = fault.New(fault.Interrupted, "interrupted")
	}
	var known *answered
	var unseen error
	switch {
	case !p.json:
		unseen = p.err.print(errorText(err, p.err))
	case !errors.As(err, &known):
		unseen = p.out.json(errorDocumentOf(err))
	}
	if unseen != nil {
		_ = p.err.print("error: the error cannot be shown: " + unseen.Error() + "\n")
	}
	return fault.ExitCode(err)
}

// answered is an error whose document is on stdout already.
type answered struct{ error }

func (a *answered) Unwrap() error { return a.error }

// answer prints the result of a command: doc as JSON, or what text makes of it. err is the command's own error beside the
// document.
func (p *program) answer(doc any, text func() string, err error) error {
	if p.json {
		if failed := p.out.json(doc); failed != nil {
			return failed
		}
	} else if failed := p.out.print(text()); failed != nil {
		return failed
	}
	if err == nil {
		return nil
	}
	return &answered{err}
}

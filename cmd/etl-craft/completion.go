package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/nearest"
	"github.com/etl-craft/etl-craft/internal/shell"
)

func (p *program) completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "prints a script that completes commands and flags in a shell", ArgsUsage: "bash|zsh|fish",
		Description: "source <(etl-craft completion bash)\nsource <(etl-craft completion zsh)\netl-craft completion fish | source",
		Action: func(c *cli.Context) error {
			scripts := map[string]func([]completed) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
			shell := c.Args().First()
			if shell == pipelinesWord {
				return p.out.print(p.pipelineCodes(c))
			}
			script, ok := scripts[shell]
			if !ok {
				err := fault.New(fault.Usage, "there is no completion for %q; it takes bash, zsh, fish", shell)
				if near := nearest.Of(shell, []string{"bash", "zsh", "fish"}); near != "" {
					return err.WithHint("etl-craft completion %s", near)
				}
				return err
			}
			return p.out.print(script(completions(p.commands())))
		},
	}
}

// pipelinesWord makes the command print the codes of the pipelines, which the scripts ask for.
const pipelinesWord = "pipelines"

// pipelineCodes lists the codes in the Engine DB, one a line, and nothing at all when they cannot be had at once.
func (p *program) pipelineCodes(c *cli.Context) string {
	ctx, cancel := context.WithTimeout(c.Context, time.Second)
	defer cancel()
	cfg, err := loadConfig(c)
	if err != nil {
		return ""
	}
	db, err := openStore(ctx, cfg)
	if err != nil {
		return ""
	}
	defer func() { _ = db.Close() }()
	list, err := db.ListPipelines(ctx)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, l := range list {
		b.WriteString(l.Code + "\n")
	}
	return b.String()
}

// completed is what may follow a command: words, and flags with their meaning.
type completed struct {
	name  string // "run", "config show"; "" for the program itself
	words [][2]string
	flags [][2]string
}

func completions(commands []*cli.Command) []completed {
	program := completed{flags: completedFlags(nil)}
	all := []completed{program}
	for _, c := range commands {
		all[0].words = append(all[0].words, [2]string{c.Name, c.Usage})
		one := completed{name: c.Name, flags: completedFlags(c.Flags)}
		if strings.Contains(c.ArgsUsage, "|") {
			for _, word := range strings.Split(c.ArgsUsage, "|") {
				one.words = append(one.words, [2]string{word, ""})
			}
		}
		for _, sub := range c.Subcommands {
			one.words = append(one.words, [2]string{sub.Name, sub.Usage})
			all = append(all, completed{name: c.Name + " " + sub.Name, flags: completedFlags(sub.Flags)})
		}
		all = append(all, one)
	}
	return all
}

func completedFlags(own []cli.Flag) [][2]string {
	var out [][2]string
	for _, f := range append(own[:len(own):len(own)], globalFlags()...) {
		_, usage := placeholder(f.(cli.DocGenerationFlag).GetUsage())
		out = append(out, [2]string{"--" + f.Names()[0], usage})
	}
	return append(out, [2]string{"--help", "shows help"})
}

func namesOf(pairs ...[][2]string) string {
	var names []string
	for _, list := range pairs {
		for _, pair := range list {
			names = append(names, pair[0])
		}
	}
	return strings.Join(names, " ")
}

// commandWords is a shell's pattern, of COMMAND:WORD, for the words that are part of a command.
func commandWords(all []completed) string {
	var patterns []string
	for _, c := range all {
		words := strings.Fields(c.name)
		switch len(words) {
		case 1:
			patterns = append(patterns, ":"+words[0])
		case 2:
			patterns = append(patterns, words[0]+":"+words[1])
		}
	}
	return strings.Join(patterns, "|")
}

// bashScript finds the command among the words typed so far and offers what may follow it.
func bashScript(all []completed) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# etl-craft completion for bash: source <(etl-craft completion bash)
_etl_craft() {
    local word command="" current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" offers="" before=""
    local -a project=()
    [[ "$current" == = ]] && current=""
    [[ "$previous" == = ]] && previous="${COMP_WORDS[COMP_CWORD-2]}"
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ "$word" == = ]] && continue
        case "$before" in
            --config|--profile) project+=("$before" "$word") ;;
        esac
        before="$word"
        case "$command:$word" in
            %s) command="${command:+$command }$word" ;;
        esac
    done
    case "$previous" in
        --pipeline|--pipeline-code|--pipeline_code)
            COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" completion pipelines "${project[@]}" 2>/dev/null)" -- "$current")); return ;;
        --output|-o|--log-format) COMPREPLY=($(compgen -W "text json" -- "$current")); return ;;
        --log-level) COMPREPLY=($(compgen -W "debug info warn error" -- "$current")); return ;;
        --config|--out) COMPREPLY=($(compgen -f -- "$current")); return ;;
    esac
    case "$command" in
`, commandWords(all))
	for _, c := range all {
		fmt.Fprintf(&b, "        %q) offers=%q ;;\n", c.name, namesOf(c.words, c.flags))
	}
	b.WriteString(`    esac
    COMPREPLY=($(compgen -W "$offers" -- "$current"))
    case "$command" in
        init|demo|export) [[ "$current" == -* ]] || COMPREPLY+=($(compgen -d -- "$current")) ;;
    esac
}
complete -F _etl_craft etl-craft
`)
	return b.String()
}

func zshScript(all []completed) string {
	var b strings.Builder
	fmt.Fprintf(&b, `#compdef etl-craft
# etl-craft completion for zsh: source <(etl-craft completion zsh)
_etl_craft() {
    local word command="" previous="${words[CURRENT-1]}" before=""
    local -a offers project
    for word in "${(@)words[2,CURRENT-1]}"; do
        case "$before" in
            (--config|--profile) project+=("$before" "$word") ;;
        esac
        before="$word"
        case "$command:$word" in
            (%s) command="${command:+$command }$word" ;;
        esac
    done
    case "$previous" in
        (--pipeline|--pipeline-code|--pipeline_code) compadd -- ${(f)"$("${words[1]}" completion pipelines "${project[@]}" 2>/dev/null)"}; return ;;
        (--output|-o|--log-format) compadd text json; return ;;
        (--log-level) compadd debug info warn error; return ;;
        (--config|--out) _files; return ;;
    esac
    case "$command" in
`, commandWords(all))
	for _, c := range all {
		fmt.Fprintf(&b, "        (%s) offers=(", shell.Quoted(c.name))
		for _, pair := range append(c.words[:len(c.words):len(c.words)], c.flags...) {
			offer := pair[0]
			if pair[1] != "" {
				offer += ":" + pair[1]
			}
			b.WriteString(" " + shell.Quoted(offer))
		}
		b.WriteString(" ) ;;\n")
	}
	b.WriteString(`    esac
    _describe etl-craft offers
    case "$command" in
        (init|demo|export) _files -/ ;;
    esac
}
compdef _etl_craft etl-craft
`)
	return b.String()
}

func fishScript(all []completed) string {
	var b strings.Builder
	b.WriteString(`# etl-craft completion for fish: etl-craft completion fish | source
complete -c etl-craft -f
function __etl_craft_pipelines
    set -l project
    set -l before
    for word in (commandline -opc)
        contains -- "$before" --config --profile; and set -a project $before $word
        set before $word
    end
    etl-craft completion pipelines $project 2>/dev/null
end
`)
	for _, c := range all {
		condition := "__fish_use_subcommand"
		if c.name != "" {
			words := strings.Fields(c.name)
			condition = "__fish_seen_subcommand_from " + strings.Join(words, "; and __fish_seen_subcommand_from ")
		}
		for _, pair := range c.words {
			fmt.Fprintf(&b, "complete -c etl-craft -n %s -a %s -d %s\n", shell.Quoted(condition), pair[0], shell.Quoted(pair[1]))
		}
		for _, pair := range c.flags {
			value := ""
			if pair[0] == "--pipeline" {
				value = " -x -a '(__etl_craft_pipelines)'"
			}
			fmt.Fprintf(&b, "complete -c etl-craft -n %s -l %s%s -d %s\n", shell.Quoted(condition), strings.TrimPrefix(pair[0], "--"), value, shell.Quoted(pair[1]))
		}
	}
	return b.String()
}

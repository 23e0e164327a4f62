package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/etl-craft/etl-craft/engine"
	"github.com/etl-craft/etl-craft/internal/fault"
)

func pipelineFlag(required bool) cli.Flag {
	return &cli.StringFlag{Name: "pipeline", Aliases: []string{"pipeline-code"}, Required: required, Usage: "`CODE` of the pipeline"}
}

func (p *program) validateCommand() *cli.Command {
	return &cli.Command{
		Name: "validate", Usage: "finds every problem at once; by default those that can be seen without a warehouse",
		Description: "etl-craft validate\netl-craft validate --pipeline SALES\netl-craft validate --files --github\netl-craft validate --connect",
		Flags: []cli.Flag{
			pipelineFlag(false),
			&cli.BoolFlag{Name: "files", Usage: "checks the files instead of the Engine DB, which need not exist"},
			&cli.BoolFlag{Name: "connect", Usage: "asks warehouse and Engine DB too: whether each SELECT compiles, targets fit and keys are unique; writes nothing"},
			&cli.BoolFlag{Name: "github", Usage: "prints annotations for GitHub Actions"},
		},
		Action: func(c *cli.Context) (err error) {
			github := c.Bool("github")
			if github && p.json {
				return fault.New(fault.Usage, "--github and --output json exclude each other")
			}
			project, err := p.open(c, needs{store: !c.Bool("files") || c.Bool("connect"), looks: true})
			if err != nil {
				if github {
					_ = p.out.print(githubAnnotations(fault.As(err).Problems, filepath.Dir(c.String("config"))))
				}
				return err
			}
			defer project.closeInto(&err)
			doc, err := project.Validate(c.Context, engine.ValidateRequest{Pipeline: c.String("pipeline"), Files: c.Bool("files"), Connect: c.Bool("connect")})
			if doc == nil {
				return err
			}
			return p.answer(doc, func() string {
				if github {
					return githubAnnotations(doc.Problems, project.Config.Dir)
				}
				return problemLines(doc.Problems, p.out) + fmt.Sprintf("%d FAIL, %d WARN\n", doc.Failures, doc.Warnings)
			}, err)
		},
	}
}

// githubAnnotations are workflow commands that show each problem at its line of a pull request.
// Files are named from the repository, $GITHUB_WORKSPACE, on.
func githubAnnotations(problems []fault.Problem, dir string) string {
	root, err := filepath.Abs(os.Getenv("GITHUB_WORKSPACE"))
	if absolute, failed := filepath.Abs(dir); err == nil && failed == nil {
		if inside, failed := filepath.Rel(root, absolute); failed == nil && filepath.IsLocal(inside) {
			dir = inside
		}
	}
	value := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	var b strings.Builder
	for _, problem := range problems {
		command := "error"
		if problem.Level != "FAIL" {
			command = "warning"
		}
		b.WriteString("::" + command + " ")
		if problem.File != "" {
			fmt.Fprintf(&b, "file=%s,line=%d,col=%d,", property.Replace(filepath.ToSlash(filepath.Join(dir, problem.File))), max(problem.Line, 1), max(problem.Column, 1))
		}
		about := problem.Pipeline
		if problem.Task != "" {
			about += "." + problem.Task
		}
		message := strings.TrimPrefix(about+": ", ": ") + problem.Message
		if problem.Hint != "" {
			message += "\nhint: " + problem.Hint
		}
		fmt.Fprintf(&b, "title=%s::%s\n", property.Replace(string(problem.Code)), value.Replace(message))
	}
	return b.String()
}

package main

import (
	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/internal/project"
)

// configDocument is etl-craft/config/1.
type configDocument struct {
	Schema string `json:"schema"`
	File   string `json:"file"`
	Config any    `json:"config"`
}

func (p *program) configCommand() *cli.Command {
	return &cli.Command{
		Name: "config", Usage: "shows the configuration, or the schema of its file",
		Description: "etl-craft config show\netl-craft config schema > etl-craft.schema.json",
		Subcommands: []*cli.Command{
			{
				Name: "show", Usage: "prints the resolved configuration, secrets as ***",
				Description: "etl-craft config show\netl-craft config show --profile prod",
				Action: func(c *cli.Context) error {
					cfg, err := loadConfig(c)
					if err != nil {
						return err
					}
					doc := configDocument{Schema: "etl-craft/config/1", File: cfg.File}
					if err := yaml.Unmarshal([]byte(cfg.YAML()), &doc.Config); err != nil {
						return err
					}
					return p.answer(doc, cfg.YAML, nil)
				},
			},
			{
				Name: "schema", Usage: "prints a JSON Schema of etl-craft.yml and of pipeline files, for editors",
				Description: "etl-craft config schema > etl-craft.schema.json",
				Action: func(*cli.Context) error {
					var params []handlers.Param
					for _, h := range allHandlers() {
						params = append(params, h.Params()...)
					}
					return p.out.print(string(project.Schema(params)))
				},
			},
		},
	}
}

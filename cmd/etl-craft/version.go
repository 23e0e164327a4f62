package main

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"
)

// versionDocument is etl-craft/version/1.
type versionDocument struct {
	Schema   string `json:"schema"`
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (p *program) versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "prints the version of this program",
		Description: "etl-craft version",
		Action: func(*cli.Context) error {
			doc := versionDocument{"etl-craft/version/1", version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			return p.answer(doc, func() string {
				return fmt.Sprintf("etl-craft %s (%s, %s)\n", doc.Version, doc.Go, doc.Platform)
			}, nil)
		},
	}
}

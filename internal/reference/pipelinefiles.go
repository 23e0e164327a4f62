package main

import (
	"github.com/etl-craft/etl-craft/internal/project"
)

func pipelineFilesPage() string {
	p := newPage("Keys of pipelines/CODE.yml", "One file per pipeline. A dependency may be a code alone, which means `on: SUCCESS`, or a mapping with the keys below.\n**Bold** keys are needed. The names under `params` are in [parameters.md](parameters.md).")
	for _, s := range project.Sections() {
		p.section(s.Name, "")
		var rows [][]string
		for _, k := range s.Keys {
			name, value := code(k.Name), string(k.Kind)
			if k.Required {
				name = "**" + name + "**"
			}
			if k.Kind == project.Choice {
				value = codes(k.Allowed)
			}
			rows = append(rows, []string{name, value, code(k.Default), k.Help})
		}
		p.table([]string{"Key", "Value", "Default", "Meaning"}, rows)
	}
	return p.String()
}

package main

import (
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/internal/config"
)

func configurationPage() string {
	p := newPage("Keys of etl-craft.yml", "Keys match ignoring case; an unknown one is refused with file, line, column and the nearest known name. `${NAME}` is an\nenvironment variable or one of `env_file`, `$$` a literal `$`. Relative paths start in the project folder. **Bold** keys\nare needed; postgres does without its bold keys when it has `url`. What each warehouse can do is on\n[a page of its own](warehouses.md).")
	var sections []string
	bySection := map[string][]config.Key{}
	for _, k := range config.Keys() {
		if !slices.Contains(sections, k.Section) {
			sections = append(sections, k.Section)
		}
		bySection[k.Section] = append(bySection[k.Section], k)
	}
	for _, s := range sections {
		title := code(s)
		if s == "" {
			title = "Top level"
		}
		p.section(title, "")
		p.table([]string{"Key", "For", "Value", "Default", "Meaning"}, keyRows(bySection[s]))
	}
	return p.String()
}

func keyRows(keys []config.Key) [][]string {
	rows := make([][]string, len(keys))
	for i, k := range keys {
		name, value, help := code(k.Name), string(k.Kind), k.Help
		if k.Required {
			name = "**" + name + "**"
		}
		switch k.Kind {
		case config.Choice:
			value = codes(k.Allowed)
		case config.Choices:
			value = "list of " + codes(k.Allowed)
		}
		if k.Secret {
			help += "; never shown"
		}
		rows[i] = []string{name, strings.Join(k.For, ", "), value, code(k.Default), help}
	}
	return rows
}

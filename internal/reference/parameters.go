package main

import (
	"slices"

	"github.com/etl-craft/etl-craft/handlers"
	"github.com/etl-craft/etl-craft/handlers/sql"
)

func parametersPage() string {
	params := sql.Handler{}.Params()
	p := newPage("Parameters of a SQL task", "They stand under `params:` of a task whose handler is `SQL`, or as rows of CFG_TASK_PARAMETERS. An unknown name, and one\nthat does not apply to the action, is refused with the nearest known name. Names that begin with `X_` are your own.")

	p.section("By action", "")
	var rows [][]string
	for _, action := range sql.Actions {
		var needed, optional []string
		for _, q := range params {
			switch {
			case isCommon(q) || q.Storage || q.Name == "SQL_ACTION":
			case slices.Contains(q.Required, action):
				needed = append(needed, q.Name)
			case q.Actions == nil || slices.Contains(q.Actions, action):
				optional = append(optional, q.Name)
			}
		}
		rows = append(rows, []string{code(action), codes(needed), codes(optional)})
	}
	p.table([]string{"`SQL_ACTION`", "Needs", "Also takes"}, rows)
	p.WriteString("\nExactly one of `SOURCE_SQL` and `SOURCE_SQL_FILE` is needed wherever they are taken.\n")

	p.section("All", "")
	p.table(paramHead, paramRows(params, func(q handlers.Param) bool { return !isCommon(q) && !q.Storage }))

	p.section("Every handler takes", "")
	p.table(paramHead, paramRows(params, isCommon))

	p.section("Storage", "They mean something on warehouses with storage of your own; DuckDB and PostgreSQL refuse them.")
	p.table(paramHead, paramRows(params, func(q handlers.Param) bool { return q.Storage }))
	return p.String()
}

var paramHead = []string{"Name", "Value", "Default", "Meaning"}

func paramRows(params []handlers.Param, wanted func(handlers.Param) bool) [][]string {
	var rows [][]string
	for _, q := range params {
		if !wanted(q) {
			continue
		}
		value := string(q.Type)
		if q.Type == handlers.EnumParam {
			value = codes(q.Allowed)
		}
		rows = append(rows, []string{code(q.Name), value, code(q.Default), q.Help})
	}
	return rows
}

func isCommon(q handlers.Param) bool {
	return slices.ContainsFunc(handlers.CommonParams, func(c handlers.Param) bool { return c.Name == q.Name })
}

package main

import (
	"strconv"

	"github.com/etl-craft/etl-craft/internal/fault"
)

func errorsPage() string {
	p := newPage("Error codes", "Each error has one of these codes, in the log, in the Engine DB and as `code` under `--output json`. Codes never change\ntheir meaning. *Exit* is the exit code of a command that ends with the error; when a task of a run fails with it, the\ncommand exits 1. *Retryable* errors may pass by themselves.")
	var rows [][]string
	for _, s := range fault.Specs() {
		retryable := ""
		if s.Retryable {
			retryable = "yes"
		}
		rows = append(rows, []string{code(string(s.Code)), strconv.Itoa(s.Exit), retryable, s.Meaning})
	}
	p.table([]string{"Code", "Exit", "Retryable", "Meaning"}, rows)
	return p.String()
}

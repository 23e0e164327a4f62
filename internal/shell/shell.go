// Package shell writes words for commands that people paste.
package shell

import (
	"regexp"
	"strings"
)

var plain = regexp.MustCompile(`^[A-Za-z0-9_./@%+=:,-]+$`)

// Word is one word for a shell, between quotes where it needs them.
func Word(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return Quoted(s)
}

// Quoted is one word for a shell, between single quotes.
func Quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

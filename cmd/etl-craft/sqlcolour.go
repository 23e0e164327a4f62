package main

import (
	"regexp"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// The words in capitals of a plan are keywords: names in it are lower case or quoted.
var sqlParts = regexp.MustCompile(`'(?:[^']|'')*'|"(?:[^"]|"")*"|\b[A-Z][A-Z]+\b`)

// sql dims the comments of a plan and colours its keywords, on a terminal.
func (s *screen) sql(plan string) string {
	if !s.colour {
		return plan
	}
	lines := strings.Split(plan, "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "--") {
			lines[i] = s.paint(text.Faint, line)
			continue
		}
		lines[i] = sqlParts.ReplaceAllStringFunc(line, func(part string) string {
			switch part[0] {
			case '\'':
				return s.paint(text.FgGreen, part)
			case '"':
				return part
			}
			return s.paint(text.FgBlue, part)
		})
	}
	return strings.Join(lines, "\n")
}

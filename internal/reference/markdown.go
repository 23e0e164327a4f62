package main

import (
	"fmt"
	"strings"
)

// page is a page under construction.
type page struct{ strings.Builder }

func newPage(title, introduction string) *page {
	p := &page{}
	fmt.Fprintf(p, "<!-- Written by `go run ./internal/reference`: change the code, not this page. -->\n\n# %s\n\n%s\n", title, introduction)
	return p
}

func (p *page) section(title, text string) {
	fmt.Fprintf(p, "\n## %s\n", title)
	if text != "" {
		fmt.Fprintf(p, "\n%s\n", text)
	}
}

// table adds a table; cells are Markdown, in which | needs no escape.
func (p *page) table(head []string, rows [][]string) {
	p.WriteString("\n")
	p.row(head)
	p.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, r := range rows {
		p.row(r)
	}
}

func (p *page) row(cells []string) {
	for _, c := range cells {
		p.WriteString("| " + strings.ReplaceAll(c, "|", `\|`) + " ")
	}
	p.WriteString("|\n")
}

// code is text as code, "" for nothing.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

func codes(texts []string) string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = code(t)
	}
	return strings.Join(out, ", ")
}

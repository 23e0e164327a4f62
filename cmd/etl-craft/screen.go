package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// screen is stdout or stderr.
type screen struct {
	w        io.Writer
	file     *os.File
	terminal bool
	colour   bool
}

func newScreen(file *os.File) *screen {
	terminal := term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
	return &screen{w: readerless{file, terminal}, file: file, terminal: terminal, colour: terminal && os.Getenv("NO_COLOR") == ""}
}

// readerless writes to a file whose reader may go away: what is written then is lost, which is no error.
type readerless struct {
	file     *os.File
	terminal bool
}

// Write implements io.Writer.
func (r readerless) Write(b []byte) (int, error) {
	n, err := r.file.Write(b)
	if errors.Is(err, syscall.EPIPE) || r.terminal && errors.Is(err, syscall.EIO) { // EIO: the terminal was closed
		return len(b), nil
	}
	return n, err
}

func (s *screen) print(text string) error {
	_, err := io.WriteString(s.w, text)
	return err
}

func (s *screen) json(doc any) error {
	e := json.NewEncoder(s.w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}

// paint colours text on a terminal.
func (s *screen) paint(c text.Color, t string) string {
	if !s.colour || t == "" {
		return t
	}
	// The library's own switch looks at the wrong stream when only one of them is a terminal.
	return c.EscapeSeq() + t + text.Reset.EscapeSeq()
}

var stateColours = map[string]text.Color{
	"SUCCESS": text.FgGreen, "OK": text.FgGreen, "FAILED": text.FgRed, "FAIL": text.FgRed, "LOST": text.FgRed, "TIMED_OUT": text.FgRed,
	"SKIPPED": text.FgYellow, "CANCELLED": text.FgYellow, "WARN": text.FgYellow, "IN_PROGRESS": text.FgCyan,
}

func (s *screen) state(name string) string {
	if c, ok := stateColours[name]; ok {
		return s.paint(c, name)
	}
	return name
}

// number marks the heading of a column that holds numbers, which stand to the right.
const number = ">"

// table lays rows out under headings, without borders. A heading that begins with ">" has numbers below it.
func (s *screen) table(headings []string, rows [][]string) string {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	var header table.Row
	var configs []table.ColumnConfig
	for i, h := range headings {
		name, right := strings.CutPrefix(h, number)
		header = append(header, name)
		if right {
			configs = append(configs, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.SetColumnConfigs(configs)
	t.AppendHeader(header)
	for _, r := range rows {
		row := make(table.Row, len(r))
		for i, cell := range r {
			row[i] = strings.Join(strings.Fields(cell), " ")
		}
		t.AppendRow(row)
	}
	lines := strings.Split(t.Render(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

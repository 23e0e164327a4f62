// Package yamlfile reads a YAML file written by a person: it collects every problem with its line and column, finds
// repeated and unknown keys, and keeps each scalar as the text that was written.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/nearest"
)

// File is one file being read.
type File struct {
	Name      string     // in Problems
	Code      fault.Code // of Problems
	Variables bool       // ${NAME} needs no quotes, not even between braces
	Pipeline  string     // in Problems from now on, as Task
	Task      string
	Problems  []fault.Problem
}

// Field is one key of a mapping with its value.
type Field struct {
	Name  string // as declared, or as written where every name is allowed
	Key   *yaml.Node
	Value *yaml.Node // never an alias
}

// Failf adds a problem at a node's place; hint may be "". A problem that is there already is not repeated.
func (f *File) Failf(at *yaml.Node, hint, format string, args ...any) {
	f.add(at.Line, at.Column, hint, fmt.Sprintf(format, args...))
}

func (f *File) add(line, column int, hint, message string) {
	p := fault.Problem{
		Level: "FAIL", Code: f.Code, Pipeline: f.Pipeline, Task: f.Task, Message: message, Hint: hint,
		File: f.Name, Line: max(line, 1), Column: max(column, 1),
	}
	same := func(have fault.Problem) bool {
		return have.Line == p.Line && have.Column == p.Column && have.Message == p.Message && have.Hint == p.Hint
	}
	if !slices.ContainsFunc(f.Problems, same) {
		f.Problems = append(f.Problems, p)
	}
}

// Root parses the file's one document. It is nil when the file is empty or cannot be read, the latter with a problem.
func (f *File) Root(data []byte) *yaml.Node {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if at, what := unreadable(data); what != "" {
		line, column := place(data, at)
		f.add(line, column, "save the file as UTF-8 text", what)
		return nil
	}
	readable := data
	if f.Variables {
		readable = written.ReplaceAll(data, []byte("$$\ue000${1}\ue001"))
	}
	decoder := yaml.NewDecoder(bytes.NewReader(readable))
	var document yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		var second yaml.Node
		err = decoder.Decode(&second)
		if err == nil {
			f.Failf(&second, "keep one file per document", "a second YAML document begins here")
			return nil
		}
	}
	if !errors.Is(err, io.EOF) {
		f.syntax(data, err)
		return nil
	}
	if f.Variables {
		restore(&document)
	}
	root := target(document.Content[0])
	if isNull(root) {
		return nil
	}
	return root
}

// YAML ends a plain value at a brace when it stands between braces. Variables are therefore parsed with other characters
// in the place of theirs, one for one so that columns stay right.
var (
	written = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
	parsed  = regexp.MustCompile(`\$\x{e000}([A-Za-z_][A-Za-z0-9_]*)\x{e001}`)
)

func restore(n *yaml.Node) {
	n.Value = parsed.ReplaceAllString(n.Value, "$${$1}")
	for _, child := range n.Content {
		restore(child)
	}
}

var (
	errorLine     = regexp.MustCompile(`^yaml: line (\d+): (.*)$`)
	unknownAnchor = regexp.MustCompile(`unknown anchor '(.*)' referenced`)
)

// syntax reports an error of the YAML parser. The parser quotes an alias, which may be a password without quotes: that
// part is not shown.
func (f *File) syntax(data []byte, err error) {
	message, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := errorLine.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = m[2]
	}
	if m := unknownAnchor.FindStringSubmatch(message); m != nil {
		line, column := place(data, max(bytes.Index(data, []byte("*"+m[1])), 0))
		f.add(line, column, "quote text that begins with *", "an alias without its anchor")
		return
	}
	f.add(line, 1, "put text with : # , quotes or brackets between quotes, and look at the line before too", "not YAML: "+message)
}

// unreadable finds the first byte that YAML does not allow.
func unreadable(data []byte) (at int, what string) {
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		switch {
		case r == utf8.RuneError && size == 1:
			return at, "not UTF-8 text"
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r >= 0x7f && r < 0xa0 && r != 0x85, r == 0xfeff, r == 0xfffe, r == 0xffff:
			return at, "a control character"
		}
		at += size
	}
	return 0, ""
}

func place(data []byte, at int) (line, column int) {
	before := data[:at]
	line = bytes.Count(before, []byte("\n")) + 1
	return line, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
}

// target follows aliases.
func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// Fields reads a mapping whose keys match known ignoring case; with known nil every key is allowed and case counts.
// what names the mapping in problems. Keys without a value are left out. A mapping under the
// key << gives the fields that are not written out.
func (f *File) Fields(n *yaml.Node, what string, known []string) []Field {
	fields := f.fields(n, what, known, visits{})
	return slices.DeleteFunc(fields, func(field Field) bool { return isNull(field.Value) })
}

// Names reads a mapping with any keys; what is as in Fields. Keys without a value are kept.
func (f *File) Names(n *yaml.Node, what string) []Field { return f.fields(n, what, nil, visits{}) }

// visits are the mappings read so far through <<: true while one is being read. Reading one again adds nothing.
type visits map[*yaml.Node]bool

func (f *File) fields(n *yaml.Node, what string, known []string, visited visits) []Field {
	if n == nil || isNull(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		f.Failf(n, "write it as key: value", "%s must be a mapping of keys to values, not %s", what, shape(n))
		return nil
	}
	visited[n] = true
	defer func() { visited[n] = false }()
	var fields []Field
	var merges []*yaml.Node
	seen := map[string]Field{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := target(n.Content[i]), target(n.Content[i+1])
		if key.ShortTag() == "!!merge" {
			merges = append(merges, value)
			continue
		}
		// An alias shows at its anchor; what is wrong with this key is wrong here.
		at := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Value == "" {
			f.Failf(at, "write a plain name in front of the colon", "a key of %s must be a name", what)
			continue
		}
		name, ok := f.name(at, key.Value, what, known)
		if !ok {
			continue
		}
		if first, repeated := seen[name]; repeated {
			f.Failf(at, "remove one of them", "%s is set twice in %s, first in line %d", key.Value, what, first.Key.Line)
			continue
		}
		field := Field{Name: name, Key: at, Value: value}
		seen[name] = field
		fields = append(fields, field)
	}
	for _, merge := range merges {
		for _, field := range f.merged(merge, what, known, visited) {
			if _, written := seen[field.Name]; !written {
				seen[field.Name] = field
				fields = append(fields, field)
			}
		}
	}
	return fields
}

func (f *File) merged(merge *yaml.Node, what string, known []string, visited visits) []Field {
	sources := []*yaml.Node{merge}
	if merge.Kind == yaml.SequenceNode {
		sources = merge.Content
	}
	var fields []Field
	for _, source := range sources {
		source = target(source)
		open, before := visited[source]
		switch {
		case open:
			f.Failf(source, "remove the inner <<", "<< in %s contains itself", what)
		case !before:
			fields = append(fields, f.fields(source, what, known, visited)...)
		}
	}
	return fields
}

// name finds the declared name of a key.
func (f *File) name(at *yaml.Node, written, what string, known []string) (string, bool) {
	if known == nil {
		return written, true
	}
	for _, k := range known {
		if strings.EqualFold(k, written) {
			return k, true
		}
	}
	hint := "known: " + strings.Join(known, ", ")
	if near := nearest.Of(written, known); near != "" {
		hint = "did you mean " + near + "?"
	}
	f.Failf(at, hint, "unknown key %s in %s", written, what)
	return "", false
}

// Text reads a scalar as it is written: yes is "yes", 1.0 is "1.0".
func (f *File) Text(n *yaml.Node, what string) (string, bool) {
	n = target(n)
	if n.Kind != yaml.ScalarNode {
		f.Failf(n, "write one value", "%s must be one value, not %s", what, shape(n))
		return "", false
	}
	if strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") && n.Tag != "!" {
		f.Failf(n, "quote text that begins with !", "%s has a tag that means nothing here", what)
		return "", false
	}
	if strings.ContainsRune(n.Value, 0) {
		f.Failf(n, "remove it", "%s holds a NUL character", what)
		return "", false
	}
	return n.Value, true
}

// Items reads a list; nothing at all is an empty one.
func (f *File) Items(n *yaml.Node, what string) []*yaml.Node {
	if n == nil || isNull(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		f.Failf(n, "begin each item with -", "%s must be a list, not %s", what, shape(n))
		return nil
	}
	items := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		items[i] = target(item)
	}
	return items
}

func shape(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	default:
		return "one value"
	}
}

// Lines are problems as file:line:column: message, in order of their places.
func Lines(problems []fault.Problem) []string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
		if p.Hint != "" {
			lines[i] += "; " + p.Hint
		}
	}
	return lines
}

// Sort orders problems by file, line and column.
func Sort(problems []fault.Problem) {
	slices.SortStableFunc(problems, func(a, b fault.Problem) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
}

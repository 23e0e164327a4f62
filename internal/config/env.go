package config

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/joho/godotenv"

	"github.com/etl-craft/etl-craft/internal/config/yamlfile"
	"github.com/etl-craft/etl-craft/internal/fault"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// readEnvFile reads the file that env_file names. Its content is never shown.
func (l *loader) readEnvFile(field yamlfile.Field) {
	written, ok := l.text(field, "env_file")
	l.noEnvFile = true
	if !ok {
		return
	}
	path := l.path(written)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		l.Failf(field.Value, "create it, or remove env_file", "env_file %s does not exist", path)
		return
	}
	if err != nil {
		l.Failf(field.Value, "name a file that can be read", "env_file cannot be read: %v", err)
		return
	}
	values, problem := parseEnvFile(filepath.Base(path), data)
	if problem != nil {
		l.Problems = append(l.Problems, *problem)
		return
	}
	l.config.EnvFile = path
	l.envFile, l.noEnvFile = values, false
}

// parseEnvFile reads NAME=value lines. The reader's own errors quote the file, so the first line that makes it fail is
// looked for instead.
func parseEnvFile(name string, data []byte) (map[string]string, *fault.Problem) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	values, err := godotenv.UnmarshalBytes(data)
	if err == nil {
		return values, nil
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	good := 0
	for n := range lines {
		if _, err := godotenv.UnmarshalBytes(bytes.Join(lines[:n], nil)); err == nil {
			good = n
		}
	}
	return nil, &fault.Problem{
		Level: "FAIL", Code: fault.ConfigInvalid, File: name, Line: good + 1, Column: 1,
		Message: "not a NAME=value line", Hint: "put values with spaces or special characters between single quotes",
	}
}

// lookup finds a variable: the process's own wins over env_file's.
func (l *loader) lookup(name string) (string, bool) {
	if value, ok := l.options.Env(name); ok {
		return value, true
	}
	value, ok := l.envFile[name]
	return value, ok
}

// text is a value with its variables replaced. What a variable holds is taken as it is.
func (l *loader) text(field yamlfile.Field, what string) (string, bool) {
	written, ok := l.Text(field.Value, what)
	if !ok {
		return "", false
	}
	value, missing, ok := expand(written, l.lookup)
	switch {
	case ok:
		return value, true
	case missing == "":
		l.Failf(field.Value, "write $${ for the text ${", "%s: ${ begins a variable that does not read ${NAME}", what)
	case !l.noEnvFile: // otherwise env_file may have it, and that it cannot be read is said already
		l.Failf(field.Value, "export "+missing+"=…", "%s: environment variable %s is not set", what, missing)
	}
	return "", false
}

// expand replaces ${NAME} and $$; every other $ is literal. When it is not ok, missing is the variable that is not set,
// "" for one that cannot be read.
func expand(written string, lookup func(string) (string, bool)) (value, missing string, ok bool) {
	var b strings.Builder
	for rest := written; ; {
		before, after, found := strings.Cut(rest, "$")
		b.WriteString(before)
		switch {
		case !found:
			return b.String(), "", true
		case strings.HasPrefix(after, "$"):
			b.WriteByte('$')
			rest = after[1:]
		case strings.HasPrefix(after, "{"):
			name, tail, closed := strings.Cut(after[1:], "}")
			if !closed || !variableName.MatchString(name) {
				return "", "", false
			}
			held, set := lookup(name)
			if !set {
				return "", name, false
			}
			b.WriteString(held)
			rest = tail
		default:
			b.WriteByte('$')
			rest = after
		}
	}
}

// path makes a path absolute: ~/ is the user's home, the rest starts in the project folder.
func (l *loader) path(written string) string {
	if rest, ok := strings.CutPrefix(written, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if filepath.IsAbs(written) {
		return filepath.Clean(written)
	}
	return filepath.Join(l.config.Dir, written)
}

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/etl-craft/etl-craft/internal/config/yamlfile"
	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/internal/nearest"
)

// Options are what decides beside the file. The zero value is right for a command without flags.
type Options struct {
	Profile string                      // --profile, "" when not given
	Env     func(string) (string, bool) // nil is os.LookupEnv
}

// Load reads the configuration at path. Its error is CONFIG_NOT_FOUND, or CONFIG_INVALID with every problem of the
// file in Problems and in the message, one a line.
func Load(path string, o Options) (*Config, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fault.New(fault.ConfigNotFound, "%s cannot be found: %w", path, err)
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.ConfigNotFound, "%s does not exist", path).WithHint("etl-craft init my-project")
	}
	if err != nil {
		return nil, fault.New(fault.ConfigNotFound, "%s cannot be read: %w", path, err)
	}
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	return parse(path, data, o)
}

func parse(path string, data []byte, o Options) (*Config, error) {
	l := &loader{
		File:    yamlfile.File{Name: filepath.Base(path), Code: fault.ConfigInvalid, Variables: true},
		config:  &Config{File: path, Dir: filepath.Dir(path)},
		options: o,
	}
	l.read(l.Root(data))
	if len(l.Problems) == 0 {
		return l.config, nil
	}
	return nil, invalid(l.Name, l.Problems)
}

func invalid(file string, problems []fault.Problem) error {
	yamlfile.Sort(problems)
	lines := yamlfile.Lines(problems)
	if len(problems) == 1 {
		p := problems[0]
		err := fault.New(fault.ConfigInvalid, "%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
		err.Hint, err.Problems = p.Hint, problems
		return err
	}
	err := fault.New(fault.ConfigInvalid, "%d problems in %s:\n  %s", len(problems), file, strings.Join(lines, "\n  "))
	err.Problems = problems
	return err
}

type loader struct {
	yamlfile.File
	config  *Config
	options Options

	envFile   map[string]string
	noEnvFile bool // it is named and cannot be read
}

// block is a mapping of the file that has been read, by the names of its keys.
type block struct {
	what   string // in messages: profiles.dev.engine
	at     *yaml.Node
	fields map[string]yamlfile.Field
}

func (l *loader) block(n *yaml.Node, what string, keys []Key) block {
	b := block{what: what, at: n, fields: map[string]yamlfile.Field{}}
	for _, field := range l.Fields(n, what, names(keys, "")) {
		b.fields[field.Name] = field
	}
	return b
}

// sub reads the mapping under a key; without one it is empty and stands where its parent does.
func (l *loader) sub(parent block, name, what string, keys []Key) block {
	field, ok := parent.fields[name]
	if !ok {
		return block{what: what, at: parent.at, fields: map[string]yamlfile.Field{}}
	}
	b := l.block(field.Value, what, keys)
	b.at = field.Key
	return b
}

func (l *loader) read(root *yaml.Node) {
	if root == nil {
		if len(l.Problems) == 0 {
			l.Failf(&yaml.Node{}, "etl-craft init my-project writes an example", "the file is empty")
		}
		return
	}
	file := l.block(root, "the file", top)
	if root.Kind != yaml.MappingNode {
		return
	}
	shared := l.sub(file, "orchestration", "orchestration", orchestration)
	webhooks := l.webhooks(file, "notifications")
	profiles := l.profiles(file)
	if field, ok := file.fields["env_file"]; ok {
		l.readEnvFile(field)
	}
	chosen := l.choose(file, profiles)
	if chosen == nil {
		return
	}
	l.config.Profile, l.config.Profiles = chosen.name, len(profiles)
	l.orchestration(shared, chosen.orchestration)
	l.notifications(webhooks, chosen.notifications)
	l.engine(chosen.engine, chosen.direct)
	l.warehouse(chosen.warehouse, chosen.given)
}

// environment is one entry of profiles.
type environment struct {
	name                             string
	orchestration, engine, warehouse block
	direct                           block
	notifications                    []block
	given                            bool // it has a warehouse
}

// profiles reads all of them, so that a key that does not exist shows whichever profile is used.
func (l *loader) profiles(file block) []environment {
	field, ok := file.fields["profiles"]
	if !ok {
		l.Failf(file.at, "add profiles: with at least one environment", "profiles is missing")
		return nil
	}
	var all []environment
	for _, named := range l.Names(field.Value, "profiles") {
		if i := slices.IndexFunc(all, func(e environment) bool { return strings.EqualFold(e.name, named.Name) }); i >= 0 {
			l.Failf(named.Key, "case does not count", "profile %s is there already, as %s", named.Name, all[i].name)
			continue
		}
		what := "profiles." + named.Name
		b := l.block(named.Value, what, profile)
		b.at = named.Key
		e := environment{
			name:          named.Name,
			orchestration: l.sub(b, "orchestration", what+".orchestration", orchestration),
			engine:        l.sub(b, "engine", what+".engine", engine),
			warehouse:     l.sub(b, "warehouse", what+".warehouse", warehouse),
		}
		e.notifications = l.webhooks(b, what+".notifications")
		_, e.given = b.fields["warehouse"]
		e.direct = l.sub(e.engine, "direct", what+".engine.direct", direct)
		all = append(all, e)
	}
	if len(all) == 0 {
		l.Failf(field.Key, "add one, such as dev:", "profiles has no profile")
	}
	return all
}

// choose picks the profile: --profile, $ETL_CRAFT_PROFILE, the file's profile, the only one.
func (l *loader) choose(file block, all []environment) *environment {
	if len(all) == 0 {
		return nil
	}
	known := make([]string, len(all))
	for i, e := range all {
		known[i] = e.name
	}
	at, by, name := file.fields["profiles"].Key, "--profile", l.options.Profile
	if name == "" {
		by = "$ETL_CRAFT_PROFILE"
		name, _ = l.options.Env("ETL_CRAFT_PROFILE")
	}
	if field, ok := file.fields["profile"]; ok && name == "" {
		at, by = field.Value, "profile"
		if name, ok = l.text(field, "profile"); !ok {
			return nil
		}
	}
	if name == "" {
		if len(all) == 1 {
			return &all[0]
		}
		l.Failf(at, "set profile: in the file, $ETL_CRAFT_PROFILE or --profile", "which profile of %s is not said", strings.Join(known, ", "))
		return nil
	}
	for i := range all {
		if strings.EqualFold(all[i].name, name) {
			return &all[i]
		}
	}
	hint := "known: " + strings.Join(known, ", ")
	if near := nearest.Of(name, known); near != "" {
		hint += fmt.Sprintf("; did you mean %s?", near)
	}
	l.Failf(at, hint, "%s names a profile %s that does not exist", by, name)
	return nil
}

func (l *loader) orchestration(shared, own block) {
	for _, key := range orchestration {
		if field, ok := own.fields[key.Name]; ok {
			l.set(key, own.what, field)
			continue
		}
		if field, ok := shared.fields[key.Name]; ok {
			l.set(key, shared.what, field)
			continue
		}
		l.fill(key)
	}
}

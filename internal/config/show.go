package config

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const masked = "***"

// YAML is the resolved configuration in the layout of etl-craft.yml, with every default and absolute paths. Secrets
// and passwords inside URLs read ***.
func (c *Config) YAML() string {
	file := mapping()
	put(file, "profile", text(c.Profile))
	if c.EnvFile != "" {
		put(file, "env_file", text(c.EnvFile))
	}
	put(file, "orchestration", c.shown(orchestration, ""))
	engineBlock := c.shown(engine, c.Engine.Type)
	if c.Engine.Direct.Host != "" {
		put(engineBlock, "direct", c.shown(direct, Postgres))
	}
	if len(c.Notifications) > 0 {
		webhooks := mapping()
		for _, w := range c.Notifications {
			put(webhooks, w.Name, (&Config{Notifications: []Webhook{w}}).shown(webhook, ""))
		}
		put(file, "notifications", webhooks)
	}
	environment, profiles := mapping(), mapping()
	put(environment, "engine", engineBlock)
	put(environment, "warehouse", c.shown(warehouse, c.Warehouse.variant()))
	put(profiles, c.Profile, environment)
	put(file, "profiles", profiles)

	var out strings.Builder
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(file); err != nil {
		panic("config: a tree of plain text does not encode: " + err.Error())
	}
	return out.String()
}

// Fingerprint is the SHA-256, in hex, of the resolved configuration without its secrets.
func (c *Config) Fingerprint() string {
	sum := sha256.Sum256([]byte(c.YAML()))
	return hex.EncodeToString(sum[:])
}

func (w *Warehouse) variant() string {
	if w.Type == DuckDB && w.TableFormat == Iceberg {
		return DuckDBIceberg
	}
	return w.Type
}

// shown is a section with the keys that its type takes and that have a value.
func (c *Config) shown(keys []Key, variant string) *yaml.Node {
	section := mapping()
	for _, key := range keys {
		if key.field == nil || !key.takes(variant) {
			continue
		}
		switch value := key.field(c).(type) {
		case *string:
			if *value != "" {
				put(section, key.Name, text(key.mask(*value)))
			}
		case *[]string:
			put(section, key.Name, texts(*value))
		case *int:
			if *value != 0 || key.Default == "0" {
				put(section, key.Name, plain(strconv.Itoa(*value), "!!int"))
			}
		case *bool:
			put(section, key.Name, plain(strconv.FormatBool(*value), "!!bool"))
		case *time.Duration:
			unit := time.Second
			if key.Kind == Minutes {
				unit = time.Minute
			}
			put(section, key.Name, plain(strconv.FormatInt(int64(*value/unit), 10), "!!int"))
		}
	}
	return section
}

func (k Key) mask(value string) string {
	switch {
	case k.Secret:
		return masked
	case k.Kind == URL:
		return maskURL(value)
	default:
		return value
	}
}

// maskURL hides the password of a URL and the parameters that may hold one.
func maskURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return masked
	}
	if _, ok := u.User.Password(); ok {
		u.User = url.UserPassword(u.User.Username(), masked)
	}
	query := u.Query()
	for name := range query {
		lower := strings.ToLower(name)
		for _, secret := range []string{"pass", "secret", "token", "key"} {
			if strings.Contains(lower, secret) && lower != "sslkey" {
				query.Set(name, masked)
			}
		}
	}
	u.RawQuery = query.Encode()
	return strings.ReplaceAll(u.String(), url.QueryEscape(masked), masked)
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

func text(value string) *yaml.Node {
	node := &yaml.Node{}
	if err := node.Encode(value); err != nil {
		panic("config: a text does not encode: " + err.Error())
	}
	return node
}

func texts(values []string) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle}
	for _, value := range values {
		list.Content = append(list.Content, text(value))
	}
	return list
}

func plain(value, tag string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

func put(to *yaml.Node, name string, value *yaml.Node) {
	to.Content = append(to.Content, text(name), value)
}

package config

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/internal/config/yamlfile"
	"github.com/etl-craft/etl-craft/internal/nearest"
)

// webhooks reads the mapping under notifications; the name of each is the last part of its block's what.
func (l *loader) webhooks(parent block, what string) []block {
	field, ok := parent.fields["notifications"]
	if !ok {
		return nil
	}
	var all []block
	for _, named := range l.Names(field.Value, what) {
		if !schemaName.MatchString(named.Name) {
			l.Failf(named.Key, "use letters, digits and _, at most 63", "%s.%s is not a plain name", what, named.Name)
			continue
		}
		b := l.block(named.Value, what+"."+named.Name, webhook)
		b.at = named.Key
		all = append(all, b)
	}
	return all
}

func (b block) name() string { return b.what[strings.LastIndexByte(b.what, '.')+1:] }

// notifications resolves the webhooks of the chosen profile; its own count instead of shared ones of the same name.
func (l *loader) notifications(shared, own []block) {
	all := slices.Clone(own)
	for _, b := range shared {
		if !slices.ContainsFunc(own, func(o block) bool { return o.name() == b.name() }) {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b block) int { return strings.Compare(a.name(), b.name()) })
	for _, b := range all {
		l.config.Notifications = append(l.config.Notifications, Webhook{Name: b.name()})
		l.values(b, webhook, "", nil)
		w := l.config.newest()
		if u, err := url.Parse(w.URL); w.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			l.failAt(b, "url", "https://host/path", "%s.url is not an http or https address", b.what)
		}
		if key, ok := strings.CutPrefix(w.Secret, "whsec_"); ok {
			if _, err := base64.StdEncoding.DecodeString(key); err != nil || key == "" {
				l.failAt(b, "secret", "whsec_ and the key in Base64, or a text of another beginning", "%s.secret begins with whsec_ but is no Base64", b.what)
			}
		}
	}
}

// list gives a Choices key its value: a list, each item one of the allowed, without regard to case.
func (l *loader) list(key Key, what string, field yamlfile.Field, to *[]string) bool {
	*to = []string{}
	good := true
	for _, item := range l.Items(field.Value, what) {
		value, ok := l.text(yamlfile.Field{Key: item, Value: item}, what)
		if !ok {
			good = false
			continue
		}
		upper := strings.ToUpper(value)
		if !slices.Contains(key.Allowed, upper) {
			hint := "it takes " + strings.Join(key.Allowed, ", ")
			if near := nearest.Of(upper, key.Allowed); near != "" {
				hint += "; did you mean " + near + "?"
			}
			l.Failf(item, hint, "%s has %q", what, item.Value)
			good = false
			continue
		}
		if !slices.Contains(*to, upper) {
			*to = append(*to, upper)
		}
	}
	return good
}

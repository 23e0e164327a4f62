package main

import (
	"regexp"
	"strings"
)

var (
	truncate     = regexp.MustCompile(`(?is)^\s*TRUNCATE\s+TABLE\s+`)
	useCatalog   = regexp.MustCompile(`(?is)^\s*USE\s+CATALOG\s+`)
	insertTarget = regexp.MustCompile("(?is)^\\s*INSERT\\s+(?:INTO|OVERWRITE)\\s+(?:TABLE\\s+)?((?:`(?:[^`]|``)+`|[\\w.])+)")
	number       = regexp.MustCompile(`^-?\d+(\.\d+)?$`)
	errorHead    = regexp.MustCompile(`^(?:[\w.$]+Exception: )?Error (?:running query|operating \w+): (?:(?:\[[^\]]*\] )?[\w.$]+(?:Exception|Error): )?`)
)

// rewrite turns the statements that Databricks has and Spark with Delta spells otherwise.
func rewrite(sql string) string {
	sql = truncate.ReplaceAllString(sql, "DELETE FROM ")
	return useCatalog.ReplaceAllString(sql, "SET CATALOG ")
}

// inserts is the table that a statement inserts into, as the statement names it.
func inserts(sql string) string {
	if m := insertTarget.FindStringSubmatch(sql); m != nil {
		return m[1]
	}
	return ""
}

// plainMessage is an error without what Spark's server wraps around it, and without its stack trace.
func plainMessage(s string) string {
	if i := strings.Index(s, "\n\tat "); i >= 0 {
		s = s[:i]
	}
	return errorHead.ReplaceAllString(s, "")
}

// bind wraps a statement with parameters in EXECUTE IMMEDIATE, so that Spark binds them, for which it takes literals only.
func bind(sql string, parameters *list) string {
	var b strings.Builder
	b.WriteString("EXECUTE IMMEDIATE " + quote(sql) + " USING ")
	for i, v := range parameters.values {
		p := v.(*tree)
		if i > 0 {
			b.WriteString(", ")
		}
		if p.has(4, 1) {
			b.WriteString(literal(p.text(3), p.text(4, 1)))
		} else {
			b.WriteString("NULL")
		}
		if name := p.text(2); name != "" {
			b.WriteString(" AS " + identifier(name))
		}
	}
	return b.String()
}

// suffixes of the numeric types' literals.
var suffixes = map[string]string{
	"TINYINT": "Y", "SMALLINT": "S", "INTEGER": "", "INT": "", "BIGINT": "L", "FLOAT": "F", "DOUBLE": "D",
}

// literal writes a value as Spark's literal of its type.
func literal(kind, v string) string {
	suffix, numeric := suffixes[kind]
	switch {
	case numeric && number.MatchString(v):
		return v + suffix
	case strings.HasPrefix(kind, "DECIMAL") && number.MatchString(v):
		return v + "BD"
	case kind == "BOOLEAN" && (v == "true" || v == "false"):
		return v
	case kind == "DATE", kind == "TIMESTAMP":
		return kind + quote(v)
	case strings.HasPrefix(kind, "INTERVAL "):
		return "INTERVAL " + quote(v) + strings.TrimPrefix(kind, "INTERVAL")
	case kind == "STRING":
		return quote(v)
	}
	return "CAST(" + quote(v) + " AS " + kind + ")"
}

var quoting = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

func quote(s string) string { return "'" + quoting.Replace(s) + "'" }

func identifier(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

package warehouses

import (
	"strconv"
	"strings"
	"time"
)

// Defect is what is wrong with some versions of a warehouse.
type Defect struct {
	From, Below string    // versions: those from From on that come before Below; "" is no bound
	Since       time.Time // when it began to be so; zero is always
	What, Hint  string
}

// KnownDefects are those of a version at a time.
func (d *Dialect) KnownDefects(version string, now time.Time) []Defect {
	var known []Defect
	for _, defect := range d.Defects {
		if before(version, defect.From) || defect.Below != "" && !before(version, defect.Below) || now.Before(defect.Since) {
			continue
		}
		known = append(known, defect)
	}
	return known
}

// before compares versions such as v1.5.5, 14.20 and 19beta1 number by number.
func before(a, b string) bool {
	one, two := numbers(a), numbers(b)
	for i := range max(len(one), len(two)) {
		var x, y int
		if i < len(one) {
			x = one[i]
		}
		if i < len(two) {
			y = two[i]
		}
		if x != y {
			return x < y
		}
	}
	return false
}

func numbers(version string) []int {
	var all []int
	for part := range strings.SplitSeq(strings.TrimPrefix(version, "v"), ".") {
		end := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(part)
		}
		n, err := strconv.Atoi(part[:end])
		if err != nil {
			return all
		}
		all = append(all, n)
		if end < len(part) {
			return all
		}
	}
	return all
}

// Spiller is a Warehouse that puts what does not fit into memory into files of this host. Whatever is there when the first
// session of a process begins was left by one that died.
type Spiller interface {
	// Spilled lists those files, and the folder they are in.
	Spilled() (folder string, files []string, err error)
}

// LeftNames select the tables of a schema that etl-craft makes for a while only, for the statement left_tables.
type LeftNames struct{ Database, Schema SQL } // literals

// Rights name what the session's user may want to do, for the statements schema_rights and table_rights, which return the
// privileges that are missing.
type Rights struct {
	On     SQL   // a literal: the name of a schema as it is, that of a table quoted
	Wanted []SQL // literals
}

// LoadRole is a role that runs tasks, for the statements of grants.
type LoadRole struct {
	Role, Database SQL
	MakesSchemas   bool
	Targets        []SQL // schemas with targets
	Sources        []SQL // other schemas that tasks read
	Reads          []SQL // tables that tasks read and no task writes
}

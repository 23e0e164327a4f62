// Package nearest finds the name that somebody probably meant.
package nearest

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Of returns the name of known with the fewest edits from name, ignoring case: at most one edit per three characters,
// rounded up. The first of equally near ones wins; "" when nothing is near.
func Of(name string, known []string) string {
	lower := strings.ToLower(name)
	best, least := "", 0
	for _, k := range known {
		distance := levenshtein.ComputeDistance(lower, strings.ToLower(k))
		if distance > (min(len(name), len(k))+2)/3 {
			continue
		}
		if best == "" || distance < least {
			best, least = k, distance
		}
	}
	return best
}

package crashtest

import (
	"regexp"
	"strings"
	"testing"
)

var meeting = regexp.MustCompile(`^(phase recorded|before commit|after commit|before outcome|after outcome)#1$`)

// TestKilledAnywhere is the crash matrix: the program kills itself at one point, and the same command goes on. The
// mixed systems take the points around the action's COMMIT and the records of it, where Engine DB and warehouse meet.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	onScenarios(t, all, every, func(t *testing.T, on system, s scenario) {
		want, points := undisturbed(t, on, s)
		for _, point := range points {
			if on.mixed() && !meeting.MatchString(point) {
				continue
			}
			t.Run(strings.ReplaceAll(point, " ", "_"), func(t *testing.T) {
				p := newProject(t, on, s)
				killed := p.start(t, "kill="+point, act...)
				if code := killed.wait(); code != -1 {
					t.Fatalf("the program was to be killed, but its exit code is %d: %s", code, killed)
				}
				same(t, "after going on", want, p.finish(t, act...))
			})
		}
	})
}

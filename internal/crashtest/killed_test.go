package crashtest

import (
	"strings"
	"testing"
)

// TestKilledAnywhere is the crash matrix: the program kills itself at one point, and the same command goes on. The
// mixed systems leave out the points before and after each step, which depend on the warehouse alone.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	onScenarios(t, all, every, func(t *testing.T, on system, s scenario) {
		want, points := undisturbed(t, on, s)
		for _, point := range points {
			if on.mixed() && strings.Contains(point, " step ") {
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

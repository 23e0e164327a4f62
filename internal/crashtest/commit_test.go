package crashtest

import (
	"strings"
	"testing"
)

// TestCommitOutcomeUnknown cuts the connection to the PostgreSQL warehouse during COMMIT. The attempt ends with
// COMMIT_UNKNOWN, and the command of its hint finds out what became of it.
func TestCommitOutcomeUnknown(t *testing.T) {
	t.Parallel()
	fates := []struct {
		name    string
		fate    fate
		outcome outcome
		later   bool // the server learns of the end only while the next attempt waits
	}{
		{"reply lost", replyLost, committed, false},
		{"never sent", neverSent, rolledBack, false},
		{"comes late", comesLate, committed, true},
		{"stays alone", staysAlone, rolledBack, true},
	}
	onScenarios(t, warehousePostgres, every, func(t *testing.T, on system, s scenario) {
		want, _ := undisturbed(t, on, s)
		for _, f := range fates {
			t.Run(f.name, func(t *testing.T) {
				p := newProject(t, on, s)
				before := p.rows(t)
				between, address := startProxy(t, f.fate, p.warehouse.at)
				p.configure(t, settings{warehouse: address})

				cut := p.start(t, "", actJSON...)
				cut.fail(1, "COMMIT_UNKNOWN")
				if f.fate == neverSent {
					same(t, "the target after the cut", before, p.rows(t))
				}
				same(t, "the attempt", []string{"FAILED COMMIT_UNKNOWN -"}, p.attempts(t))

				goOn := p.start(t, "", append(p.goOn(t), "-o", "json")...)
				if f.later {
					p.waitsInWarehouse(t)
					between.deliver()
				}
				same(t, "after going on", want, p.observe(t, goOn.succeed()))
				same(t, "the attempts", []string{"FAILED COMMIT_UNKNOWN " + s.settled(f.outcome), "SUCCESS - -"}, p.attempts(t))
			})
		}
	})
}

// TestCommitOutcomeRetried lets the command itself try again: it ends well, with what an undisturbed one leaves.
func TestCommitOutcomeRetried(t *testing.T) {
	t.Parallel()
	onScenarios(t, warehousePostgres, every, func(t *testing.T, on system, s scenario) {
		want, _ := undisturbed(t, on, s)
		for name, f := range map[string]fate{"reply lost": replyLost, "never sent": neverSent} {
			t.Run(name, func(t *testing.T) {
				retried := s
				retried.task = strings.Replace(s.task, "SQL_ACTION", "RETRIES: 1, RETRY_DELAY_SECONDS: 0, SQL_ACTION", 1)
				p := newProject(t, on, retried)
				_, address := startProxy(t, f, p.warehouse.at)
				p.configure(t, settings{warehouse: address})
				same(t, "after the retry", want, p.finish(t, act...))
				outcome := map[fate]outcome{replyLost: committed, neverSent: rolledBack}[f]
				same(t, "the attempts", []string{"FAILED COMMIT_UNKNOWN " + s.settled(outcome), "SUCCESS - -"}, p.attempts(t))
			})
		}
	})
}

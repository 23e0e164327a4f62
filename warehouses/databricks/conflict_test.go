package databricks

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etl-craft/etl-craft/internal/fault"
	"github.com/etl-craft/etl-craft/warehouses"
)

// counter is a table of one row whose v everybody adds to.
type counter struct {
	*client
	target string
}

func newCounter(t *testing.T, deletionVectors bool) *counter {
	t.Helper()
	c := connect(t)
	n := &counter{c, c.schema + ".t"}
	c.exec(fmt.Sprintf("CREATE TABLE %s USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = '%t') AS SELECT id, 0 AS v FROM (VALUES (1), (2), (3)) AS s (id)", n.target, deletionVectors))
	return n
}

// classified is the value and the version of the table, of one statement.
func (n *counter) classified(ctx context.Context, s *session) (value, version string, err error) {
	rows, err := s.Rows(ctx, warehouses.SQL(fmt.Sprintf("SELECT v, %s FROM %s WHERE id = 1", n.version(), n.target)), 1)
	if err != nil {
		return "", "", err
	}
	return rows[0][0], rows[0][1], nil
}

func (n *counter) version() warehouses.SQL {
	return Dialect.Version(Dialect, warehouses.QualifiedName{Database: n.facts.Database, Schema: n.schema, Table: "t"})
}

// merge writes what was classified plus 1, unless the table is another by now. delay makes the statement slow between
// reading its snapshot and its commit.
func (n *counter) merge(ctx context.Context, s *session, value, version string, delay time.Duration) (int64, error) {
	slow := ""
	if delay > 0 {
		slow = fmt.Sprintf(" + length(coalesce(java_method('java.lang.Thread', 'sleep', %dL), ''))", delay.Milliseconds())
	}
	return s.Exec(ctx, warehouses.SQL(fmt.Sprintf("MERGE INTO %s AS t USING (SELECT 1 AS id, %s + 1%s AS v FROM (SELECT 1 AS one) AS o WHERE '%s' IS NOT DISTINCT FROM %s) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v",
		n.target, value, slow, version, n.version())))
}

// TestVersion: whatever an outsider commits after the classification, the merge then changes nothing.
func TestVersion(t *testing.T) {
	for _, vectors := range []bool{false, true} {
		t.Run(fmt.Sprintf("deletion_vectors=%t", vectors), func(t *testing.T) {
			n := newCounter(t, vectors)
			for _, outside := range []string{
				"UPDATE %s SET v = v WHERE id = 2",
				"INSERT INTO %s VALUES (4, 4)",
				"DELETE FROM %s WHERE id = 4",
				"MERGE INTO %s AS t USING (SELECT 2 AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 7",
				"INSERT OVERWRITE TABLE %[1]s SELECT * FROM %[1]s",
			} {
				value, version, err := n.classified(t.Context(), n.session)
				if err != nil {
					t.Fatal(err)
				}
				n.exec(fmt.Sprintf(outside, n.target))
				if changed, err := n.merge(t.Context(), n.session, value, version, 0); err != nil || changed != 0 {
					t.Errorf("after %s: %d changed, %v", outside, changed, err)
				}
			}
			value, version, err := n.classified(t.Context(), n.session)
			if err != nil {
				t.Fatal(err)
			}
			if changed, err := n.merge(t.Context(), n.session, value, version, 0); err != nil || changed != 1 {
				t.Errorf("nothing came between: %d changed, %v", changed, err)
			}
		})
	}
}

// TestConflictWhileMerging: an outsider commits while the merge runs.
func TestConflictWhileMerging(t *testing.T) {
	for _, vectors := range []bool{false, true} {
		n := newCounter(t, vectors)
		w := shared(t)
		merging := n.another(w)
		value, version, err := n.classified(t.Context(), n.session)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		var changed int64
		go func() {
			var err error
			changed, err = n.merge(t.Context(), merging, value, version, 8*time.Second)
			ended <- err
		}()
		time.Sleep(3 * time.Second)
		n.exec("UPDATE " + n.target + " SET v = 100 WHERE id = 1")
		err = <-ended
		if err != nil && (!fault.Has(err, fault.WriteConflict) || !fault.As(err).Retryable) || err == nil && changed != 0 {
			t.Errorf("the merge changed %d row(s), %v", changed, err)
		}
		if now, _, err := n.classified(t.Context(), n.session); err != nil || now != "100" {
			t.Errorf("the value is %s, %v", now, err)
		}
	}
}

// TestStorm: merges and outsiders add to one value at once, and no addition is lost.
func TestStorm(t *testing.T) {
	for _, vectors := range []bool{false, true} {
		n := newCounter(t, vectors)
		w := shared(t)
		const each = 3
		var writers sync.WaitGroup
		var conflicts atomic.Int64
		write := func(once func(s *session) (int64, error)) {
			s := n.another(w)
			writers.Go(func() {
				for done := 0; done < each; {
					changed, err := once(s)
					switch {
					case fault.Has(err, fault.WriteConflict), err == nil && changed == 0:
						conflicts.Add(1)
					case err != nil:
						t.Error(err)
						return
					default:
						done++
					}
				}
			})
		}
		for range 2 {
			write(func(s *session) (int64, error) {
				value, version, err := n.classified(t.Context(), s)
				if err != nil {
					return 0, err
				}
				return n.merge(t.Context(), s, value, version, 0)
			})
			write(func(s *session) (int64, error) {
				return s.Exec(t.Context(), warehouses.SQL("UPDATE "+n.target+" SET v = v + 1 WHERE id = 1"))
			})
		}
		writers.Wait()
		if now, _, err := n.classified(t.Context(), n.session); err != nil || now != fmt.Sprint(4*each) {
			t.Errorf("the value is %s after %d additions, %v", now, 4*each, err)
		}
		t.Logf("deletion vectors %t: %d conflicts", vectors, conflicts.Load())
	}
}

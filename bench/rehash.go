package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// rehash computes the hashes of a large target anew, and by hand with the same UPDATE.
func (b *bench) rehash(p *page) error {
	for _, name := range []string{"duckdb", "postgres"} {
		if name == "postgres" && b.server == "" {
			continue
		}
		dir := filepath.Join(b.dir, "rehash "+name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		w, drop := b.duckdb(dir), func() error { return nil }
		if name == "postgres" {
			var err error
			if w, drop, err = b.postgres("rehash"); err != nil {
				return err
			}
		}
		engine, hand, err := b.rehashOn(dir, w)
		if dropped := drop(); err == nil {
			err = dropped
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.title, err)
		}
		p.rehash(w, engine, hand)
	}
	return nil
}

func (b *bench) rehashOn(dir string, w warehouse) (engine, hand cost, err error) {
	const sql = `SOURCE_SQL: "SELECT CAST(1 AS BIGINT) AS id, CAST('a' AS VARCHAR) AS name, CAST(1 AS INTEGER) AS qty"`
	project, err := b.project(dir, sqliteEngine, w, map[string]string{"P": task("setup", "", "SQL_ACTION: SETUP_TABLE", "TARGET_OBJECT: t.target", sql) +
		task("merge", "setup", "SQL_ACTION: SCD2_MERGE", "TARGET_OBJECT: t.target", "MERGE_KEY: id", "MERGE_COMPARE_COLUMNS: [name, qty]", sql)})
	if err != nil {
		return engine, hand, err
	}
	if _, err := project.run("run", "--pipeline", "P"); err != nil {
		return engine, hand, err
	}
	fill := fmt.Sprintf(`TRUNCATE t.target;
INSERT INTO t.target (id, name, qty, active_flag, delete_flag)
SELECT i, 'customer ' || i, i %% 97, CASE WHEN i %% 4 = 0 THEN 'N' ELSE 'Y' END, 'N' FROM generate_series(1, %d) AS r (i);
`, 10*b.rows) + settled(w, "t.target")
	if w.name == "postgres" {
		fill = "CREATE SCHEMA IF NOT EXISTS src;\nCREATE TABLE IF NOT EXISTS src.delta (id int);\n" + fill
	}
	if _, err := project.hand(w, fill); err != nil {
		return engine, hand, err
	}
	// The statement, as the dry run shows it.
	shown, err := exec.Command(b.program, "rehash", "--target", "t.target", "--dry-run", "-o", "json", "--config", dir).Output()
	if err != nil {
		return engine, hand, err
	}
	var doc struct {
		Targets []struct {
			Changed int
			Steps   []struct{ Name, SQL string }
		}
	}
	if err := json.Unmarshal(shown, &doc); err != nil {
		return engine, hand, err
	}
	if doc.Targets[0].Changed != 10*b.rows {
		return engine, hand, fmt.Errorf("%d rows would change", doc.Targets[0].Changed)
	}
	steps := doc.Targets[0].Steps
	if hand, err = project.hand(w, steps[len(steps)-1].SQL+";\n"); err != nil {
		return engine, hand, err
	}
	if _, err := project.hand(w, fill); err != nil {
		return engine, hand, err
	}
	if engine, err = project.run("rehash", "--target", "t.target"); err != nil {
		return engine, hand, err
	}
	_, err = project.hand(w, "SELECT CAST(CASE WHEN count(*) = 0 THEN '1' ELSE 'rows without a hash' END AS integer) FROM t.target WHERE hash_key IS NULL;\n")
	return engine, hand, err
}

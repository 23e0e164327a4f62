package crashtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// upkeep is a command that looks after t.target, which tasks have written and would be refused to write now.
type upkeep struct {
	name    string
	command []string
	tasks   string // of pipeline PREPARE afterwards
	spoil   string // SQL that leaves the target as others would
}

var upkeeps = []upkeep{
	{"rehash", []string{"rehash", "--target", "t.target"}, prepared("SCD2_MERGE", `, MERGE_KEY: id, MERGE_COMPARE_COLUMNS: day|name`), ""},
	{"upgrade", []string{"upgrade-targets", "--target", "t.target"}, prepared("SCD2_MERGE", merge),
		"ALTER TABLE t.target DROP COLUMN pipeline_run_id; ALTER TABLE t.target DROP COLUMN task_run_id"},
}

// spoiled is a project whose target needs the command.
func (u upkeep) spoiled(t *testing.T, on system) project {
	t.Helper()
	p := makeProject(t, on, map[string]string{"PREPARE": prepared("SCD2_MERGE", merge)})
	p.etl(t, "run", "--pipeline", "PREPARE")
	p.warehouse.exec(t, "UPDATE raw.rows SET name = name || '!' WHERE id % 3 = 0")
	p.etl(t, "run", "--pipeline", "PREPARE")
	p.write(t, "pipelines/PREPARE.yml", "pipeline: PREPARE\nname: prepare\nrefresh_type: INCREMENTAL\ntasks:"+u.tasks+"\n")
	p.etl(t, "apply")
	if u.spoil != "" {
		p.warehouse.exec(t, u.spoil)
	}
	return p
}

// kept is everything that can be seen of the target but instants and ROW_ID, and what is recorded of its hashes.
type kept struct {
	Rows, Columns, Comments, Recorded []string
}

func (p project) kept(t *testing.T) (k kept) {
	t.Helper()
	p.warehouse.use(t, func(db database) {
		k.Rows = target(t, db)
		k.Columns = db.texts(t, `SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '')
			FROM information_schema.columns WHERE table_schema = 't' ORDER BY table_name, ordinal_position`)
		comment := `SELECT coalesce(comment, '') FROM duckdb_tables() WHERE schema_name = 't'`
		if p.on.warehouse == "postgres" {
			comment = `SELECT coalesce(obj_description('t.target'::regclass), '')`
		}
		k.Comments = db.texts(t, comment)
	})
	p.engine.use(t, func(db database) {
		k.Recorded = db.texts(t, `SELECT HASH_VERSION || ' ' || COMPARE_COLUMNS FROM AUD_TARGET_HASH_VERSION ORDER BY 1`)
	})
	return k
}

// TestKilledUpkeep kills the command at every point; the same command again leaves what an undisturbed one leaves, and the
// tasks can write the target.
func TestKilledUpkeep(t *testing.T) {
	t.Parallel()
	onSystems(t, all, func(t *testing.T, on system) {
		for _, u := range upkeeps {
			t.Run(u.name, func(t *testing.T) {
				t.Parallel()
				calm := u.spoiled(t, on)
				calm.start(t, "", "run", "--pipeline", "PREPARE").fail(1, "hint for fill: etl-craft "+u.command[0])
				before := calm.kept(t)
				calm.etl(t, append(u.command, "--dry-run")...)
				same(t, "a dry run", before, calm.kept(t))
				trace := filepath.Join(t.TempDir(), "points")
				calm.etl(t, append(u.command, "trace="+trace)...)
				want := calm.kept(t)
				b, err := os.ReadFile(trace)
				if err != nil {
					t.Fatal(err)
				}
				points := strings.Split(strings.TrimSpace(string(b)), "\n")
				if len(points) < 5 {
					t.Fatalf("an undisturbed command passed %d points only: %v", len(points), points)
				}
				for _, point := range points {
					if on.mixed() && !strings.Contains(point, "commit#") && !strings.Contains(point, "recorded#") {
						continue
					}
					t.Run(strings.ReplaceAll(point, " ", "_"), func(t *testing.T) {
						p := u.spoiled(t, on)
						if code := p.start(t, "kill="+point, u.command...).wait(); code != -1 {
							t.Fatalf("the program was to be killed, but its exit code is %d", code)
						}
						p.etl(t, u.command...)
						same(t, "after going on", want, p.kept(t))
						p.etl(t, "run", "--pipeline", "PREPARE")
					})
				}
			})
		}
	})
}

// TestUpkeepBesideOthers lets two commands and a run of the tasks want the target at once.
func TestUpkeepBesideOthers(t *testing.T) {
	t.Parallel()
	onSystems(t, all, func(t *testing.T, on system) {
		for _, u := range upkeeps {
			t.Run(u.name, func(t *testing.T) {
				t.Parallel()
				calm := u.spoiled(t, on)
				calm.etl(t, u.command...)
				want := calm.kept(t)
				p := u.spoiled(t, on)
				one, two := p.start(t, "", u.command...), p.start(t, "", u.command...)
				run := p.start(t, "", "run", "--pipeline", "PREPARE")
				one.succeed()
				two.succeed()
				if code := run.wait(); code != 0 { // it was there first
					run.fail(1, "hint for fill: etl-craft "+u.command[0])
				}
				same(t, "afterwards", want, p.kept(t))
				p.etl(t, "run", "--pipeline", "PREPARE")
			})
		}
	})
}

// TestRehashTakenBack kills a rehash after its commit and gives the tasks back the columns that were recorded before: no
// merge may take the new hashes for the old ones, which would make a new version of every row.
func TestRehashTakenBack(t *testing.T) {
	t.Parallel()
	onSystems(t, all, func(t *testing.T, on system) {
		u := upkeeps[0]
		p := u.spoiled(t, on)
		if code := p.start(t, "kill=before the hash is recorded", u.command...).wait(); code != -1 {
			t.Fatalf("the program was to be killed, but its exit code is %d", code)
		}
		before := p.rows(t)
		p.write(t, "pipelines/PREPARE.yml", "pipeline: PREPARE\nname: prepare\nrefresh_type: INCREMENTAL\ntasks:"+prepared("SCD2_MERGE", merge)+"\n")
		p.etl(t, "apply")
		p.start(t, "", "run", "--pipeline", "PREPARE").fail(1, "hint for fill: etl-craft rehash")
		same(t, "rows", before, p.rows(t))
		p.etl(t, u.command...)
		p.etl(t, "run", "--pipeline", "PREPARE")
	})
}

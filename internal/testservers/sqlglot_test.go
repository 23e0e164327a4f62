package testservers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// statements for sqlglot/check.py, one a line. What is refused has its reason after "--".
const (
	snowflakeLines = `
CREATE ICEBERG TABLE i (id INT) CATALOG='SNOWFLAKE' EXTERNAL_VOLUME='v' BASE_LOCATION='b'
CREATE TRANSIENT TABLE t (id NUMBER(38,0) IDENTITY(1,1), s VARCHAR(10) DEFAULT 'x') CLUSTER BY (id)
ALTER TABLE a SWAP WITH b
ALTER TABLE a ADD COLUMN c INT, d INT
TRUNCATE TABLE IF EXISTS a
MERGE INTO t USING s ON t.id=s.id WHEN MATCHED AND s.op='D' THEN DELETE WHEN MATCHED THEN UPDATE SET a=s.a WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)
MERGE INTO t USING s ON t.id=s.id WHEN MATCHED THEN UPDATE ALL BY NAME WHEN NOT MATCHED THEN INSERT ALL BY NAME
DELETE FROM t USING s WHERE t.id=s.id
UPDATE t SET a=s.a FROM s WHERE t.id=s.id
INSERT OVERWRITE INTO t SELECT '[ ]; ON CONFLICT'
COPY INTO t FROM @st FILE_FORMAT=(TYPE=CSV SKIP_HEADER=1)
SELECT * FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b)=1
ALTER SESSION SET QUERY_TAG='x'
ALTER ICEBERG TABLE i REFRESH
SELEC 1 --Invalid expression
SELECT 'x --Missing '
SELECT (1 --Expecting )
CREATE STORAGE x --sqlglot does not know
INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING --ON CONFLICT
UPDATE t SET a=1 RETURNING * --RETURNING
SELECT DISTINCT ON (a) b FROM t --DISTINCT ON
CREATE INDEX i ON t (a) --CREATE INDEX
SELECT * FROM t LIMIT 10 PERCENT --LIMIT PERCENT
MERGE INTO t USING s ON t.id=s.id WHEN NOT MATCHED BY SOURCE THEN DELETE --NOT MATCHED BY SOURCE
MERGE INTO t USING s ON t.id=s.id WHEN MATCHED THEN UPDATE SET * --UPDATE SET *
SELECT a FROM t1 SEMI JOIN t2 ON t1.a=t2.a --SEMI or ANTI JOIN
CREATE TABLE t (id INT[]) --type with []
CREATE TABLE t (id HUGEINT) --such type
ALTER TABLE t ADD COLUMN a INT, ADD COLUMN b INT --sqlglot does not know
`
	databricksLines = `
MERGE INTO t USING s ON t.id=s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE
CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY, d DATE) USING DELTA PARTITIONED BY (d) TBLPROPERTIES ('a'='true')
ALTER TABLE t ADD COLUMNS (a INT, b STRING)
INSERT INTO t REPLACE WHERE d='x' SELECT 1
INSERT OVERWRITE t SELECT 1
CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1
RESTORE TABLE t TO VERSION AS OF 1
OPTIMIZE t ZORDER BY (id)
DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.id=t.id)
UPDATE t SET a=s.a FROM s WHERE t.id=s.id --UPDATE ... FROM
DELETE FROM t USING s WHERE t.id=s.id --DELETE ... USING
CREATE TEMP TABLE t (a INT) --temporary table
CREATE TABLE t (id SERIAL) --SERIAL
MERGE INTO t USING s ON 1=1 WHEN MATCHED THEN UPDATE ALL BY NAME --ALL BY NAME
INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING --ON CONFLICT
`
	trinoLines = `
CREATE TABLE IF NOT EXISTS a.b (x bigint NOT NULL, y varchar COMMENT 'c') COMMENT 't' WITH (format = 'PARQUET', partitioning = ARRAY['day(d)'])
CREATE OR REPLACE TABLE a AS SELECT CAST(1 AS bigint) AS x
MERGE INTO t USING s ON (t.id = s.id) WHEN MATCHED AND s.op = 'D' THEN DELETE WHEN MATCHED THEN UPDATE SET a = s.a WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)
INSERT INTO t (a) WITH s AS (SELECT 1 AS a) SELECT a FROM s
ALTER TABLE t ADD COLUMN IF NOT EXISTS x bigint
ALTER TABLE t EXECUTE rollback_to_snapshot(1)
SELECT * FROM "t$snapshots"
UPDATE t SET a=s.a FROM s --UPDATE ... FROM
DELETE FROM t AS x WHERE x.id=1 --alias of the target
MERGE INTO t USING s ON t.id=s.id WHEN MATCHED THEN UPDATE SET t.a=s.a --SET table.column
WITH s AS (SELECT 1 a) INSERT INTO t SELECT * FROM s --WITH before INSERT
INSERT OVERWRITE t SELECT 1 --INSERT OVERWRITE
CREATE TEMPORARY TABLE t (a int) --temporary table
CREATE TABLE t (a int DEFAULT 1) --Default
CREATE TABLE t (a int PRIMARY KEY) --PrimaryKey
ALTER TABLE t ADD COLUMN a int, ADD COLUMN b int --several changes
SELECT a::int FROM t --::
SELECT a ILIKE 'x' FROM t --ILike
SELECT * EXCEPT (a) FROM t --EXCEPT
SELECT * FROM t QUALIFY row_number() OVER ()=1 --Invalid expression
`
)

func TestSQLGlotCheck(t *testing.T) {
	python := os.Getenv("ETL_CRAFT_TEST_SQLGLOT")
	if python == "" {
		t.Skip("ETL_CRAFT_TEST_SQLGLOT is not set")
	}
	check := func(t *testing.T, dialect, text string) (failures []string, exit int) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "statements.sql")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), python, filepath.Join("sqlglot", "check.py"), dialect, file).Output()
		var exited *exec.ExitError
		if errors.As(err, &exited) {
			exit = exited.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			failures = append(failures, strings.TrimPrefix(strings.TrimSpace(line), file+":"))
		}
		return failures, exit
	}
	for dialect, lines := range map[string]string{"snowflake": snowflakeLines, "databricks": databricksLines, "trino": trinoLines} {
		t.Run(dialect, func(t *testing.T) {
			var good, bad strings.Builder
			var reasons []string
			for line := range strings.Lines(strings.TrimSpace(lines)) {
				statement, reason, refused := strings.Cut(strings.TrimSpace(line), " --")
				if strings.HasPrefix(reason, "Missing") { // it would hide what follows
					if failures, exit := check(t, dialect, statement); exit != 1 || len(failures) != 1 {
						t.Errorf("%s: exit %d, %q", statement, exit, failures)
					}
				} else if refused {
					reasons = append(reasons, reason)
					fmt.Fprintln(&bad, statement+";")
				} else {
					fmt.Fprintln(&good, statement+";")
				}
			}
			if failures, exit := check(t, dialect, good.String()); exit != 0 || len(failures) > 0 {
				t.Errorf("exit %d:\n%s", exit, strings.Join(failures, "\n"))
			}
			failures, exit := check(t, dialect, bad.String())
			if exit != 1 || len(failures) != len(reasons) {
				t.Fatalf("exit %d, want %d failures:\n%s", exit, len(reasons), strings.Join(failures, "\n"))
			}
			for i, reason := range reasons {
				if !strings.HasPrefix(failures[i], fmt.Sprintf("%d: ", i+1)) || !strings.Contains(failures[i], reason) {
					t.Errorf("line %d, want %s: %s", i+1, reason, failures[i])
				}
			}
		})
	}
	if _, exit := check(t, "trino", "-- nothing\n;"); exit == 0 {
		t.Error("a file without a statement passes")
	}
}

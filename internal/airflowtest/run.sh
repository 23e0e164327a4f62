#!/usr/bin/env bash
# Runs DAG files that `etl-craft airflow` wrote in a real Airflow, and compares what became of each task with what should.
# Everything lies in one throw-away folder. `make airflow-test` calls it; it needs Go, python3 with venv, and PyPI.
#
# AIRFLOW_VENV   a virtual environment with Airflow that is there already: nothing is installed then
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly airflow_version=3.3.2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

say() { echo "== $*"; }

venv=${AIRFLOW_VENV:-$scratch/venv}
if [ -z "${AIRFLOW_VENV:-}" ]; then
  say "Airflow $airflow_version"
  python3 -m venv "$venv"
  python=$("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  constraints=()
  if curl -fsSL -m 30 -o "$scratch/constraints.txt" \
    "https://raw.githubusercontent.com/apache/airflow/constraints-$airflow_version/constraints-$python.txt" 2>/dev/null; then
    constraints=(--constraint "$scratch/constraints.txt")
  else
    echo "Airflow's list of tested versions cannot be reached; the newest that fit are installed" >&2
  fi
  "$venv/bin/pip" install --quiet "${constraints[@]}" "apache-airflow==$airflow_version"
fi

mkdir "$scratch/bin"
go build -o "$scratch/bin/etl-craft" ./cmd/etl-craft
cp -r internal/airflowtest/project "$scratch/project"
export PATH=$scratch/bin:$PATH
export AIRFLOW_HOME=$scratch/airflow AIRFLOW__CORE__LOAD_EXAMPLES=false AIRFLOW__CORE__DAGS_FOLDER=$scratch/dags
export AIRFLOW__LOGGING__LOGGING_LEVEL=WARNING AIRFLOW__CORE__UNIT_TEST_MODE=false
mkdir -p "$AIRFLOW__CORE__DAGS_FOLDER"

cd "$scratch/project"
etl-craft migrate
etl-craft apply >"$scratch/apply.log"
for pipeline in LANDING SALES BROKEN; do
  etl-craft airflow --pipeline "$pipeline" --out "$AIRFLOW__CORE__DAGS_FOLDER/$pipeline.py"
done
"$venv/bin/airflow" db migrate >"$scratch/db.log" 2>&1 || { cat "$scratch/db.log" >&2; exit 1; }

failed=0
# dag PIPELINE STATE TASKS runs a DAG. STATE is what becomes of the run, TASKS of its tasks: "a=SUCCESS b=SKIPPED/ORCHESTRATOR".
dag() {
  say "airflow dags test $1 2026-09-01"
  "$venv/bin/airflow" dags test "$1" 2026-09-01 --dagfile-path "$AIRFLOW__CORE__DAGS_FOLDER/$1.py" >"$scratch/$1.log" 2>&1 || true
  etl-craft status --pipeline "$1"
  local got
  got=$(etl-craft status --pipeline "$1" --output json | "$venv/bin/python" -c '
import json, sys
run = json.load(sys.stdin)
print(run["status"], run["run_date"], run["trigger"],
      *(t["task"] + "=" + t["status"] + ("/" + t["skip_reason"] if t["skip_reason"] else "") for t in run["tasks"]))')
  if [ "$got" != "$2 2026-09-01 ORCHESTRATOR $3" ]; then
    printf 'got  %s\nwant %s\n' "$got" "$2 2026-09-01 ORCHESTRATOR $3" >&2
    tail -40 "$scratch/$1.log" >&2
    failed=1
  fi
}

# in_airflow PIPELINE TASK=STATE... compares with the states that Airflow has.
in_airflow() {
  local pipeline=$1 got
  shift
  got=$("$venv/bin/python" - "$AIRFLOW_HOME/airflow.db" "$pipeline" <<'PYTHON'
import sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute("SELECT task_id || '=' || state FROM task_instance WHERE dag_id = ? ORDER BY task_id", sys.argv[2:])
print(*(r[0] for r in rows))
PYTHON
  )
  echo "Airflow: $got"
  [ "$got" = "$*" ] && return
  echo "want     $*" >&2
  failed=1
}

dag LANDING SUCCESS "land_orders=SUCCESS land_returns=SUCCESS"
in_airflow LANDING finalize-run=success init-run=success land_orders=success land_returns=success
dag SALES SUCCESS "load_orders=SUCCESS load_returns=SKIPPED/ORCHESTRATOR count_orders=SUCCESS no_orders=SKIPPED/ORCHESTRATOR two_of_three=SUCCESS summary=SUCCESS"
in_airflow SALES count_orders=success finalize-run=success init-run=success load_orders=success load_returns=skipped \
  no_orders=skipped summary=success two_of_three=success
dag BROKEN FAILED "divide=FAILED behind=SKIPPED/ORCHESTRATOR alarm=SUCCESS no_alarm=SKIPPED/ORCHESTRATOR"
in_airflow BROKEN alarm=success behind=upstream_failed divide=failed finalize-run=failed init-run=success no_alarm=skipped
[ "$failed" -eq 0 ] && say "as it should be"
exit "$failed"

# Airflow 3 DAG of the etl-craft pipeline GATES, written by `etl-craft airflow --pipeline GATES`.
# Change the pipeline and write the file again; what is changed here is lost then.
from datetime import timedelta

import pendulum
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

RUN = "etl-craft run --config=/srv/sales/etl-craft.yml --profile=prod --pipeline=GATES --run-key=\"$ETL_CRAFT_RUN_KEY\""

ENV = {
    "ETL_CRAFT_ACTOR": "airflow",
    "ETL_CRAFT_ACTOR_KIND": "ORCHESTRATOR",
    "ETL_CRAFT_RUN_KEY": "{{ run_id }}",
    "ETL_CRAFT_RUN_DATE": "{{ (dag_run.logical_date or dag_run.run_after) | ds }}",
}


def etl_craft(task_id, flags, *, check=False, wait=0, **options):
    """Runs etl-craft. With check it asks first whether that may be, and exit code 99 skips the task; with wait it asks
    again, for so many seconds, while the answer is "not yet"."""
    command = f"{RUN} {flags}"
    if wait:
        command = f"""deadline=$((SECONDS + {wait}))
until {command} --check-only; do
  answer=$?
  if [ "$answer" -ne 7 ] || [ "$SECONDS" -ge "$deadline" ]; then exit "$answer"; fi
  sleep 30
done
{command}"""
    elif check:
        command = f"{command} --check-only && {command}"
    return BashOperator(
        task_id=task_id, bash_command=command, env=ENV, append_env=True, skip_on_exit_code=99, do_xcom_push=False, **options
    )


with DAG(
    dag_id="GATES",
    dag_display_name="Gates",
    description="waits\nfor \"RAW\"",
    schedule="@daily",
    start_date=pendulum.datetime(2026, 9, 1, tz="UTC"),
    catchup=True,
    max_active_runs=1,
    tags=["etl-craft"],
    default_args={"retries": 0, "retry_delay": timedelta(minutes=1), "max_retry_delay": timedelta(hours=1)},
) as dag:
    init = etl_craft("init-run", '--init-only --run-date="$ETL_CRAFT_RUN_DATE"', wait=3600)
    finalize = etl_craft("finalize-run", "--finalize-only", trigger_rule="all_done")
    tasks = {
        "a": etl_craft("a", "--task=a", wait=3600),
        "b": etl_craft("b", "--task=b", trigger_rule="all_done", wait=3600),
        "c": etl_craft("c", "--task=c"),
    }

    init >> tasks["a"]
    [tasks["a"]] >> tasks["b"]
    [tasks["a"]] >> tasks["c"]

    list(tasks.values()) >> finalize

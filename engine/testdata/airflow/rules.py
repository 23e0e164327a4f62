# Airflow 3 DAG of the etl-craft pipeline RULES, written by `etl-craft airflow --pipeline RULES`.
# Change the pipeline and write the file again; what is changed here is lost then.
from datetime import timedelta

import pendulum
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

RUN = "etl-craft run --config=/srv/sales/etl-craft.yml --profile=prod --pipeline=RULES --run-key=\"$ETL_CRAFT_RUN_KEY\""

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
    dag_id="RULES",
    dag_display_name="RULES",
    description=None,
    schedule=None,
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["etl-craft"],
    default_args={"retries": 0, "retry_delay": timedelta(minutes=1), "max_retry_delay": timedelta(hours=1)},
) as dag:
    init = etl_craft("init-run", '--init-only --run-date="$ETL_CRAFT_RUN_DATE"')
    finalize = etl_craft("finalize-run", "--finalize-only", trigger_rule="all_done")
    tasks = {
        "a": etl_craft("a", "--task=a"),
        "b": etl_craft("b", "--task=b"),
        "mid": etl_craft("mid", "--task=mid"),
        "all_success": etl_craft("all_success", "--task=all_success"),
        "any_success": etl_craft("any_success", "--task=any_success", trigger_rule="one_success"),
        "any_always": etl_craft("any_always", "--task=any_always", trigger_rule="one_done"),
        "all_failure": etl_craft("all_failure", "--task=all_failure", trigger_rule="all_failed"),
        "any_failure": etl_craft("any_failure", "--task=any_failure", trigger_rule="one_failed"),
        "has_data": etl_craft("has_data", "--task=has_data", trigger_rule="all_done", check=True),
        "mixed": etl_craft("mixed", "--task=mixed", trigger_rule="all_done", check=True),
        "two_of_two": etl_craft("two_of_two", "--task=two_of_two"),
        "class": etl_craft("class", "--task=class"),
        "all_always": etl_craft("all_always", "--task=all_always", trigger_rule="all_done"),
        "any_always_deep": etl_craft("any_always_deep", "--task=any_always_deep", trigger_rule="all_done"),
        "all_failure_deep": etl_craft("all_failure_deep", "--task=all_failure_deep", trigger_rule="all_failed", check=True),
        "any_failure_deep": etl_craft("any_failure_deep", "--task=any_failure_deep", trigger_rule="all_done", check=True),
        "two_of_three": etl_craft("two_of_three", "--task=two_of_three", trigger_rule="all_done", check=True),
    }

    init >> tasks["a"]
    init >> tasks["b"]
    [tasks["a"]] >> tasks["mid"]
    [tasks["a"], tasks["b"]] >> tasks["all_success"]
    [tasks["a"], tasks["b"]] >> tasks["any_success"]
    [tasks["a"], tasks["b"]] >> tasks["any_always"]
    [tasks["a"], tasks["b"]] >> tasks["all_failure"]
    [tasks["a"], tasks["b"]] >> tasks["any_failure"]
    [tasks["a"]] >> tasks["has_data"]
    [tasks["a"], tasks["b"]] >> tasks["mixed"]
    [tasks["a"], tasks["b"]] >> tasks["two_of_two"]
    [tasks["a"]] >> tasks["class"]
    [tasks["mid"], tasks["b"]] >> tasks["all_always"]
    [tasks["mid"], tasks["b"]] >> tasks["any_always_deep"]
    [tasks["mid"]] >> tasks["all_failure_deep"]
    [tasks["mid"], tasks["b"]] >> tasks["any_failure_deep"]
    [tasks["a"], tasks["b"], tasks["mid"]] >> tasks["two_of_three"]

    list(tasks.values()) >> finalize

"""The DAG that compares what jobs hold with what lives, and puts right what was lost between the two."""

from datetime import timedelta

from airflow.sdk import DAG

from ffdl_ops.pipeline.operators.housekeeping import ReconcileOperator

with DAG(
    dag_id="ffdl_housekeeping",
    description="What jobs hold is brought to what lives",
    doc_md=(
        "A lease whose job has ended and of which nothing lives is given back; pods that hold GPUs without a lease are stopped; "
        "a job that was told to stop and was not, is. Each correction is in the task's log and in `ffdl audit`. "
        "On a healthy platform there is nothing to correct."
    ),
    schedule=timedelta(minutes=5),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["ffdl"],
):
    ReconcileOperator(task_id="reconcile", execution_timeout=timedelta(minutes=4))

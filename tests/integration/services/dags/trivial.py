"""Two DAGs that cost nothing: a chain of tasks, and one that only the speech tenant's people may see."""

from airflow.sdk import DAG, BaseOperator


class Nothing(BaseOperator):
    """Does nothing."""

    def execute(self, context):
        """Do nothing."""


with DAG("chain", schedule=None, access_control={"tenant_vision": {"DAGs": {"can_read", "can_edit"}}}):
    previous = None
    for number in range(8):
        task = Nothing(task_id=f"task{number}")
        if previous is not None:
            previous >> task
        previous = task

with DAG("speech_only", schedule=None, access_control={"tenant_speech": {"DAGs": {"can_read", "can_edit"}}}):
    Nothing(task_id="task")

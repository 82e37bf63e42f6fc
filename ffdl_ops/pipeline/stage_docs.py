"""What each stage does, in the words that Airflow's UI shows beside it."""

from __future__ import annotations

__all__ = ["DAG_DOC", "STAGE_DOCS"]

DAG_DOC = """
### Training jobs of tenant **{tenant}**

Trigger this DAG to train a model: fill in the form, or paste a whole manifest into its last field. One run is one job.

`plan → fetch_data → admit → preflight → learners → release → checkpoint → store_results → conclude`, with `monitor` beside
`learners`. The last four run whatever happens.

- **Halt**: mark the run as failed. The learners save and stop; logs and checkpoints are kept.
- **Resume**: clear the run, or any of its tasks. Training goes on from the newest checkpoint, in the same MLflow run.
- **Why does it wait?** The log of `admit` says what it waits for, who holds it, and its place in the queue.
- **Where is the model?** In the tenant's bucket; the link *MLflow run* on each task leads to the metrics and its address.
"""

STAGE_DOCS = {
    "begin": "Marks where the job begins, so that the teardowns run whichever stage ends it.",
    "plan": "Checks the request against the tenant's limits, the cluster and the store, with real calls, and stores the "
    "job. A request that can't be met is refused here, naming each field and its limit.",
    "fetch_data": "Brings the data set from the bucket into the tenant's cache, before any GPU is held. Data that is "
    "there already is not fetched again.",
    "admit": "Grants the whole gang its nodes at once when it fits; otherwise waits, using no worker slot, and says in "
    "its log what for, who holds it, and the job's place in the queue.",
    "preflight": "Runs one learner for a moment, so that an error in the program shows before the gang starts. On by "
    "default for gangs of more than two learners.",
    "learners": "Starts all learners together, watches them as one, and shows each one's output in this log. If one "
    "ends badly, all are stopped, and start again from the newest checkpoint while the failure's class has retries left.",
    "monitor": "Reads the learners' output and writes metrics to MLflow, using no worker slot.",
    "release": "Stops whatever of the job still lives, and frees its GPUs once every pod is confirmed gone.",
    "checkpoint": "Completes the upload of the newest checkpoint, promotes it, and prunes older ones.",
    "store_results": "Uploads the results and all logs to the bucket, after success and failure alike.",
    "conclude": "Writes the job's final state and closes its MLflow run. Fails the run unless the job completed.",
}

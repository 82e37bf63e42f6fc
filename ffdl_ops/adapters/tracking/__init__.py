"""A job's record in MLflow: one run per job, written by one writer, and the metrics read out of what learners
print.

`runs` keeps the run (created once, found again by its job's tag), `metrics` turns the launcher's log lines
into points, `rest` speaks MLflow's REST interface within a time limit, so that an MLflow outage never holds a
GPU.
"""

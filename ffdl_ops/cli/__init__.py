"""The command line `ffdl`: for people at a terminal (tables, one clear message for an error), and for programs (`--json`,
exit codes).

It asks the same sources as everything else: the ledger, the tenants' buckets, MLflow, and Airflow's REST API to start, stop
and resume runs. `main` holds the group and the error boundary; each command has a module, imported when it is called.
"""

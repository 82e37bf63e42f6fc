"""The outside world, one folder for each system: ledger, cluster, object store, MLflow; and Airflow's own REST API."""

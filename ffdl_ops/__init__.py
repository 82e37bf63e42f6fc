"""ffdl-ops: a multi-tenant platform for training deep-learning models, as Airflow DAGs (see docs/architecture.md)."""

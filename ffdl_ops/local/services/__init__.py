"""Starts, stops and seeds the embedded platform: PostgreSQL, S3, MLflow, minicluster and Airflow as processes of this
machine, listening on loopback, with all state below `FFDL_HOME`. `stack` is the whole, `process` what one service is."""

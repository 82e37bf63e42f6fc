#!/bin/sh
# One database and one role for each of Airflow, MLflow and the ledger. The image of PostgreSQL runs this once, on an empty
# data folder; passwords come from the secrets' files and are never in the environment.
set -eu
for name in airflow mlflow ffdl; do
    psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
        --set name="$name" --set password="$(cat "/run/secrets/${name}_db_password")" <<'SQL'
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
REVOKE CONNECT ON DATABASE :"name" FROM PUBLIC;
SQL
done

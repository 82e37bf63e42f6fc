"""The environment that each embedded service gets; a service sees what it uses and nothing of another's secrets."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ffdl_ops.adapters.settings import Settings
from ffdl_ops.core.jobs.ids import connection_id

__all__ = ["DAG_FOLDERS", "airflow_environment", "base_environment"]

_REPOSITORY = Path(__file__).resolve().parents[3]
DAG_FOLDERS = (_REPOSITORY / "dags", _REPOSITORY / "bench_dags")


def base_environment() -> dict[str, str]:
    """What every service needs: where programs are, and a locale."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "/usr/bin:/bin")])
    return {
        "PATH": path,
        "HOME": os.environ.get("HOME", "/"),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
    }


def airflow_environment(
    settings: Settings,
    secrets: Mapping[str, Any],
    endpoints: Mapping[str, Any],
    database: str,
    port: int,
    dag_folders: Sequence[Path] = DAG_FOLDERS,
) -> dict[str, str]:
    """The environment of Airflow's components, besides :func:`base_environment`: its own settings, and where the
    platform's services are.

    :param dag_folders: each becomes a DAG bundle of its name; the first is Airflow's `dags_folder`.
    """
    home = settings.home
    url = f"http://127.0.0.1:{port}"
    dags = [
        {
            "name": folder.name,
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(folder)},
        }
        for folder in dag_folders
    ]
    section = {
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__AUTH_MANAGER": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager",
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAG_DISCOVERY_SAFE_MODE": "False",
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__DAGS_FOLDER": str(dag_folders[0]),
        "CORE__PLUGINS_FOLDER": str(_REPOSITORY / "plugins"),
        "CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "CORE__PARALLELISM": "8",
        "CORE__FERNET_KEY": str(secrets["fernet"]),
        "CORE__MAX_ACTIVE_RUNS_PER_DAG": "10000",
        "CORE__MAX_ACTIVE_TASKS_PER_DAG": "10000",
        "DATABASE__SQL_ALCHEMY_CONN": database,
        "API__HOST": "127.0.0.1",
        "API__PORT": str(port),
        "API__BASE_URL": url,
        "API__WORKERS": "1",
        "API__SECRET_KEY": str(secrets["api_secret"]),
        "API_AUTH__JWT_SECRET": str(secrets["jwt"]),
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",
        # How soon a task's supervisor sees that it has failed, or was marked so: Airflow's own 5 s are added to every failure.
        "WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
        "SCHEDULER__ENABLE_HEALTH_CHECK": "False",
        "SCHEDULER__MAX_TIS_PER_QUERY": "64",
        "DAG_PROCESSOR__REFRESH_INTERVAL": "30",
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
        "DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(dags),
        "TRIGGERER__CAPACITY": "2000",
        # After this silence of a triggerer that was killed, a new one takes its triggers.
        "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
        "TRIGGERER__JOB_HEARTBEAT_SEC": "2",
        "LOGGING__BASE_LOG_FOLDER": str(home / "logs" / "airflow"),
        "LOGGING__LOGGING_LEVEL": "INFO",
        "FAB__UPDATE_FAB_PERMS": "False",  # `pipeline.installing` has done it
        "WEBSERVER__INSTANCE_NAME": "FfDL",
    }
    environment = {f"AIRFLOW__{name}": value for name, value in section.items()}
    environment |= {
        "AIRFLOW_HOME": str(home / "airflow"),
        "FFDL_HOME": str(home),
        "FFDL_CONFIG_DIR": str(settings.config),
        "FFDL_CONFIG_DIGEST": _digest(settings.config),  # a changed file restarts what has read it
        "FFDL_LEDGER_URL": str(endpoints["ledger_url"]),
        "FFDL_AIRFLOW_URL": url,
        "FFDL_AIRFLOW_USERNAME": "admin",
        "FFDL_AIRFLOW_PASSWORD": str(secrets["users"]["admin"]),
        "MLFLOW_TRACKING_URI": str(endpoints["mlflow"]["url"]),
        "KUBECONFIG": str(endpoints["kubeconfig"]),
        "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps({"conn_type": "kubernetes"}),
    }
    for tenant, keys in endpoints["s3"]["tenants"].items():
        extra = {"endpoint_url": endpoints["s3"]["endpoint"], "region_name": "us-east-1"}
        connection = {"conn_type": "aws", "login": keys["access_key"], "password": keys["secret_key"], "extra": extra}
        environment[f"AIRFLOW_CONN_{connection_id(tenant).upper()}"] = json.dumps(connection)
    for name in ("FFDL_PREWARM",):
        if name in os.environ:
            environment[name] = os.environ[name]
    return environment


def _digest(config: Path) -> str:
    files = [config / name for name in ("platform.yaml", "tenants.yaml")]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files if file.exists())).hexdigest()

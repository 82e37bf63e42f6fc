"""Starts Airflow's components on one machine, forked from one process that has imported what they share.

Four components that each import Airflow, the providers and this package take four times the two to four seconds of CPU
that this is. Here it is imported once, and the scheduler's workers, which fork the tasks, have it too (`prewarm`).

    python -m ffdl_ops.pipeline.components REQUEST.json ANSWER.json

REQUEST: {"users": {name: [role, password]} or null, "components": {component: log file}}; with `users`, Airflow is
installed first (`installing`). ANSWER: {component: pid}. Each component leads a session of its own. This program ends as
soon as all are started; nothing is started when the installation fails.

It opens no database connection and starts no thread of its own before it forks: what is forked shares imports, nothing else.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["main"]

_FIRST = "api-server"  # the slowest to come up, and the one that needs the least of what is imported here
# Logs are files that the API server reads itself; a server of them would need a port of its own.
_OPTIONS = {"scheduler": ["--skip-serve-logs"], "triggerer": ["--skip-serve-logs"]}


def main() -> int:
    """Do what the request says."""
    request: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    answer = Path(sys.argv[2])
    logs: dict[str, str] = request["components"]
    gc.set_threshold(
        100_000, 50, 50
    )  # what is imported stays: looking through it again and again takes a tenth of the time
    # Airflow's local settings, and `prewarm`, look at the command line to see whose process they are in.
    sys.argv = ["airflow", _FIRST]
    from airflow import configuration, settings  # noqa: F401
    from airflow.cli import cli_parser

    cli_parser.get_parser()
    started: dict[str, int] = {}
    installer = _install_in_child(request["users"]) if request.get("users") else None
    if installer is None and _FIRST in logs:
        started[_FIRST] = _start(_FIRST, logs[_FIRST])
    sys.argv = ["airflow", "scheduler"]
    _import_shared()
    if installer is not None and _failed(installer):
        return 1
    gc.collect()
    gc.freeze()
    for component, log in logs.items():
        if component not in started:
            started[component] = _start(component, log)
    temporary = answer.with_suffix(".tmp")
    temporary.write_text(json.dumps(started))
    temporary.replace(answer)
    return 0


def _import_shared() -> None:
    import airflow.dag_processing.manager
    import airflow.executors.local_executor
    import airflow.jobs.scheduler_job_runner
    import airflow.jobs.triggerer_job_runner  # noqa: F401

    from ffdl_ops.pipeline.prewarm import warm

    warm()


def _install_in_child(users: dict[str, tuple[str, str]]) -> int:
    from ffdl_ops.pipeline.installing import install

    return _fork(lambda: install(users))


def _failed(pid: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0


def _start(component: str, log: str) -> int:
    return _fork(lambda: _become(component, log))


def _become(component: str, log: str) -> None:
    """Go on as a component: as if `airflow <component>` had been called in a shell of its own."""
    os.setsid()
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(out, stream)
    os.close(out)
    sys.argv = ["airflow", component, *_OPTIONS.get(component, ())]
    from airflow.__main__ import main as airflow
    from setproctitle import setproctitle

    setproctitle(f"airflow {component}")

    airflow()


def _fork(work: Callable[[], object]) -> int:
    """Do the work in a child, which never comes back from here.

    :returns: the child's pid.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())

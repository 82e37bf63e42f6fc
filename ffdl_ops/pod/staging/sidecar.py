"""`sidecar`: takes checkpoints while learners run, and once more when they have ended; `checkpoint`: that last time alone.

The store may be down for as long as it likes: the side-car tries again with growing pauses, and never ends by itself.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from ffdl_ops.adapters.storage.errors import Unreachable, exit_code
from ffdl_ops.core.errors import FfdlError
from ffdl_ops.pod.staging.checkpoints import CheckpointTaker, Taken
from ffdl_ops.pod.staging.report import redacted, say
from ffdl_ops.pod.staging.spec import StageSpec
from ffdl_ops.pod.staging.stores import tenant_store

__all__ = ["run", "take_last", "watch"]

_LONGEST_PAUSE_S = 60.0
_LAST_PAUSE_S = 1.0
_LAST_TRIES = 5


def run(spec: StageSpec) -> dict[str, Any]:
    """Run until SIGTERM, then look once more.

    The checkpoints of a gang are taken by rank 0; the other ranks' side-cars only wait.
    """
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    if spec.rank != 0:
        stop.wait()
        return {"generation": None}
    return watch(spec, CheckpointTaker(spec, tenant_store()), stop)


def watch(spec: StageSpec, taker: CheckpointTaker, stop: threading.Event) -> dict[str, Any]:
    """Take checkpoints until told to stop, then once more within the grace period.

    :returns: the last generation taken and the bytes uploaded; `code` is not 0 when the last upload could not be made.
    """
    failures, size, last = 0, 0, None
    while not stop.wait(_pause_s(spec.checkpoint.interval_s, failures)):
        taken, error = _tried(taker.look)
        failures = failures + 1 if error else 0
        if error:
            say(spec, f"checkpoint not uploaded (try {failures}): {error}")
        last, size = taken or last, size + (taken.bytes if taken else 0)
    deadline = time.monotonic() + spec.grace_s
    while True:
        taken, error = _tried(taker.take_last)
        last, size = taken or last, size + (taken.bytes if taken else 0)
        if error is None or time.monotonic() + _LAST_PAUSE_S > deadline:
            break
        say(spec, f"last checkpoint not uploaded, trying again: {error}")
        time.sleep(_LAST_PAUSE_S)
    return {**_told(last), "bytes": size, "error": str(error) if error else None, "code": exit_code(error) if error else 0}


def take_last(spec: StageSpec) -> dict[str, Any]:
    """Look once, when no learner lives any more; a store that can't be reached is tried a few times.

    :raises FfdlError: when the upload could not be made.
    """
    taker = CheckpointTaker(spec, tenant_store())
    for number in range(1, _LAST_TRIES + 1):
        try:
            return _told(taker.take_last())
        except Unreachable as error:
            if number == _LAST_TRIES:
                raise
            say(spec, f"last checkpoint not uploaded, trying again: {error}")
            time.sleep(_LAST_PAUSE_S * number)
    return {}


def _tried(step: Callable[[], Taken | None]) -> tuple[Taken | None, Exception | None]:
    """A step's result or its error: whatever happens here must not end the side-car while a learner runs."""
    try:
        return step(), None
    except FfdlError as error:
        return None, error
    except Exception as error:
        return None, FfdlError(redacted(f"{type(error).__name__}: {error}"))


def _pause_s(interval_s: float, failures: int) -> float:
    return min(max(_LONGEST_PAUSE_S, interval_s), interval_s * 2 ** min(failures, 10))


def _told(taken: Taken | None) -> dict[str, Any]:
    if taken is None:
        return {"generation": None}
    return {
        "generation": taken.generation,
        "step": taken.step,
        "bytes": taken.bytes,
        "files": taken.files,
        "left_out": list(taken.left_out),
    }

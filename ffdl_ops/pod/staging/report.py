"""What a helper tells: lines for people in its log, one JSON line for the platform at its end. Never a secret."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ffdl_ops.pod.staging.spec import StageSpec

__all__ = ["MAX_MESSAGE_BYTES", "redacted", "say", "write_result"]

MAX_MESSAGE_BYTES = 4096
"""What Kubernetes keeps of a termination message."""
_SECRETS = tuple(
    f"{prefix}{name}" for prefix in ("FFDL_S3_", "FFDL_DATA_S3_") for name in ("SECRET_ACCESS_KEY", "ACCESS_KEY_ID")
)


def say(spec: StageSpec | None, text: str) -> None:
    """Print a line with its time, and keep it in the job's helper log."""
    line = f"{datetime.now(UTC).isoformat(timespec='microseconds').replace('+00:00', 'Z')} [helper] {redacted(text)}"
    print(line, flush=True)
    if spec is None:
        return
    name = f"{spec.command}-a{spec.attempt}-l{spec.rank}"
    folder = os.path.join(spec.job_dir, "logs", "helpers")
    try:
        os.makedirs(folder, exist_ok=True)
        # Not waiting: a program may have laid a pipe in its place.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(os.path.join(folder, f"{name}.log"), flags, 0o644), "a", encoding="utf-8") as log:
            log.write(line + "\n")
    except OSError:
        pass  # the line is on standard output; a full volume is reported by what needs the room


def redacted(text: str) -> str:
    """The text with the environment's secrets blotted out."""
    for name in _SECRETS:
        if value := os.environ.get(name):
            text = text.replace(value, "***")
    return text


def write_result(result: Mapping[str, Any]) -> None:
    """Write the result as one JSON line to the file in `FFDL_TERMINATION_LOG` and to standard output.

    Long lists and texts are shortened until it fits into a termination message.
    """
    clean = {name: _clean(value) for name, value in result.items()}
    line = json.dumps(clean, sort_keys=True)
    limit = MAX_MESSAGE_BYTES
    while len(line.encode()) > MAX_MESSAGE_BYTES and limit > 16:
        limit //= 2
        line = json.dumps({name: _shortened(value, limit) for name, value in clean.items()}, sort_keys=True)
    print(line, flush=True)
    path = os.environ.get("FFDL_TERMINATION_LOG")
    if path:
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            print(f"the termination message could not be written to {path}: {error}", flush=True)


def _clean(value: Any) -> Any:
    """The value with secrets blotted out, before anything is cut: half a secret would not be found."""
    if isinstance(value, str):
        return redacted(value)
    return [_clean(one) for one in value] if isinstance(value, list) else value


def _shortened(value: Any, limit: int) -> Any:
    if isinstance(value, str) and len(value) > limit:
        return value[:limit] + "…"
    if isinstance(value, list):
        kept = value[: max(1, limit // 128)]
        return [_shortened(one, limit) for one in kept]
    return value

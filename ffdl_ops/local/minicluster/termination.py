"""Termination messages: what a container left in its file, or the end of its log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ffdl_ops.local.minicluster.logs import tail
from ffdl_ops.local.minicluster.safepaths import read_below

if TYPE_CHECKING:
    from ffdl_ops.local.minicluster.containers import Run
    from ffdl_ops.local.minicluster.volumes import Volumes

__all__ = ["LIMIT", "termination_message"]

LIMIT = 4096
_LOG_LINES, _LOG_BYTES = 80, 2048


def termination_message(pod: dict[str, Any], run: Run, volumes: Volumes) -> str:
    """The message of a run that has ended, at most 4096 bytes; empty when there is none."""
    containers = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
    container = next((one for one in containers if one["name"] == run.container), None)
    if container is None:
        return ""
    text = _from_file(run, volumes)
    failed = bool((run.exit or {}).get("code"))
    if not text and failed and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        text = tail(run.log, _LOG_LINES)[-_LOG_BYTES:]
    return text.decode("utf-8", "replace")


def _from_file(run: Run, volumes: Volumes) -> bytes:
    path = run.directory / "termination-path"
    try:
        real = path.read_text()
        root = volumes.state
        relative = os.path.relpath(real, root)
        return read_below(root, relative, LIMIT)
    except OSError:
        return b""

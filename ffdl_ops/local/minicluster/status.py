"""What a pod says of itself: conditions and container statuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ffdl_ops.local.minicluster.containers import Container
from ffdl_ops.local.minicluster.logs import tail_of
from ffdl_ops.local.minicluster.store import now_text

__all__ = ["container_status", "set_condition"]


def set_condition(
    pod: dict[str, Any], kind: str, status: str, reason: str | None = None, message: str | None = None
) -> bool:
    """Set a condition; returns whether anything changed."""
    conditions = pod["status"].setdefault("conditions", [])
    new = {"type": kind, "status": status}
    if reason:
        new["reason"] = reason
    if message:
        new["message"] = message
    for one in conditions:
        if one["type"] == kind:
            if {key: value for key, value in one.items() if key != "lastTransitionTime"} == new:
                return False
            conditions.remove(one)
            break
    conditions.append({**new, "lastTransitionTime": now_text()})
    return True


def container_status(
    spec: Mapping[str, Any],
    container: Container,
    message_of: Callable[[Mapping[str, Any]], str | None],
    blocked: Mapping[str, str] | None,
    oomed: set[str],
) -> dict[str, Any]:
    """One container's status, from what its shim has written."""
    started, ended = container.started(), container.ended()
    status = {
        "name": spec["name"],
        "image": spec["image"],
        "imageID": spec["image"],
        "restartCount": 0,
        "ready": bool(started and not ended),
        "started": bool(started and not ended),
    }
    if blocked:
        return {**status, "state": {"waiting": dict(blocked)}}
    if ended:
        oom = spec["name"] in oomed or (container.directory / "oom").exists()
        reason = "OOMKilled" if oom else ("Completed" if ended["code"] == 0 else "Error")
        message = message_of(spec)
        if not message and ended["code"] and spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            message = tail_of(container.log, 2048)
        state = {
            "exitCode": ended["code"],
            "reason": reason,
            "startedAt": _second(started["at"]) if started else None,
            "finishedAt": _second(ended["at"]),
            "containerID": f"minicluster://{spec['name']}",
        }
        if ended.get("signal"):
            state["signal"] = ended["signal"]
        if message:
            state["message"] = message
        return {**status, "containerID": state["containerID"], "state": {"terminated": state}}
    if started:
        running = {"startedAt": _second(started["at"])}
        return {**status, "containerID": f"minicluster://{spec['name']}", "state": {"running": running}}
    return {**status, "state": {"waiting": {"reason": "PodInitializing"}}}


def _second(stamp: str | None) -> str | None:
    """A time stamp of whole seconds, as statuses have it."""
    return f"{stamp[:19]}Z" if stamp else None

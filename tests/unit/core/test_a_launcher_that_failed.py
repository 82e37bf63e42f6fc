"""A launcher that could not run the program is the platform's fault, not its user's."""

from __future__ import annotations

from ffdl_ops.core.failures.classes import FailureClass
from ffdl_ops.core.failures.classify import classify
from ffdl_ops.core.failures.evidence import LearnerEvidence


def test_the_launchers_own_failure_is_the_platforms() -> None:
    reason = "launcher: /job/logs can't be written to"
    failure = classify(
        [
            LearnerEvidence(
                rank=0, pod="p", node="n", phase="Failed", pod_reason=None, pod_message=None, container_reason="Error",
                exit_code=74, signal=None, oom=False, exit_report={"exit_code": 74, "reason": reason}, deleted=False,
                memory_limit=None,
            )
        ]
    )  # fmt: skip
    assert failure.cls is FailureClass.PLATFORM
    assert "can't be written" in failure.summary

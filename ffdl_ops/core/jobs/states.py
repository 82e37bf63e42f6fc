"""A job's states (FfDL's own words) and which may follow which.

A job moves forward only; a stage with nothing to do may be passed over. Two ways lead back: a new attempt of a gang that
was deploying or training (to DEPLOYING, or to QUEUED when it needs a new lease), and a resume, the only way out of a
terminal state. A late message can therefore never move a job backwards.
"""

from __future__ import annotations

from enum import StrEnum

from ffdl_ops.core.errors import PermanentError

__all__ = ["TERMINAL", "JobState", "TransitionRefused", "allowed", "next_or_raise"]


class JobState(StrEnum):
    """Where a job is."""

    NOT_STARTED = "NOT_STARTED"
    """Stored, nothing done yet."""
    PENDING = "PENDING"
    """Checked against tenant, cluster and store."""
    DOWNLOADING = "DOWNLOADING"
    """Its data set is being staged; no GPU is held."""
    QUEUED = "QUEUED"
    """Waits in its tenant's queue for the whole gang's GPUs."""
    DEPLOYING = "DEPLOYING"
    """Its pods are being created and started."""
    PROCESSING = "PROCESSING"
    """All learners run."""
    STORING = "STORING"
    """GPUs are free again; checkpoints, results and logs are being stored."""
    COMPLETED = "COMPLETED"
    """Trained to its end, all stored."""
    FAILED = "FAILED"
    """Ended by a failure whose class had no restarts left."""
    HALTED = "HALTED"
    """Stopped by a person; its checkpoint is kept."""
    RESUMED = "RESUMED"
    """A person started it again after its end."""


TERMINAL = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.HALTED})
"""The states that only a resume leaves."""

_FORWARD = (
    JobState.NOT_STARTED,
    JobState.PENDING,
    JobState.DOWNLOADING,
    JobState.QUEUED,
    JobState.DEPLOYING,
    JobState.PROCESSING,
    JobState.STORING,
)
_POSITION = {state: position for position, state in enumerate(_FORWARD)}
_RESTARTS = {
    JobState.DEPLOYING: frozenset({JobState.QUEUED}),
    JobState.PROCESSING: frozenset({JobState.DEPLOYING, JobState.QUEUED}),
}


class TransitionRefused(PermanentError):
    """A state that may not follow the job's present one.

    :param frm: the present state.
    :param to: the state that was asked for.
    """

    def __init__(self, frm: JobState, to: JobState) -> None:
        super().__init__(f"A job in state {frm} can't become {to}. {_why(frm, to)}")
        self.frm = frm
        self.to = to


def allowed(frm: JobState, to: JobState) -> bool:
    """Whether a job in state ``frm`` may be in state ``to`` next. Staying where it is is allowed."""
    frm, to = JobState(frm), JobState(to)
    if frm is to:
        return True
    if frm in TERMINAL:
        return to is JobState.RESUMED
    if to in TERMINAL:
        return True
    if to is JobState.RESUMED:
        return False
    if frm is JobState.RESUMED:
        return to is not JobState.NOT_STARTED
    return _POSITION[to] > _POSITION[frm] or to in _RESTARTS.get(frm, frozenset())


def next_or_raise(frm: JobState, to: JobState) -> JobState:
    """The state ``to``, if the job may enter it.

    :raises TransitionRefused: if it may not.
    """
    if not allowed(frm, to):
        raise TransitionRefused(JobState(frm), JobState(to))
    return JobState(to)


def _why(frm: JobState, to: JobState) -> str:
    if frm in TERMINAL:
        return "It has ended; only a resume (clear its run, or `ffdl resume`) leaves that state."
    if to is JobState.RESUMED:
        return "Only a job that has ended can be resumed."
    return "Jobs move forward only; a new attempt goes back to DEPLOYING or QUEUED."

"""Exit codes, and which error ends with which. The table for people is in docs/errors.md."""

from __future__ import annotations

from enum import IntEnum

from ffdl_ops.core.errors import FfdlError, TemporaryError, UserError

__all__ = ["Exit", "Refusal", "TookTooLong", "exit_of", "exit_of_state"]


class Exit(IntEnum):
    """How a command ended."""

    OK = 0
    JOB_FAILED = 1
    USAGE = 2
    REFUSED = 3
    JOB_HALTED = 4
    DIFFERS = 5
    DATA = 65
    CREDENTIALS = 66
    UNREACHABLE = 69
    INTERNAL = 70
    DISK = 74
    TIME_OUT = 75
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class Refusal(UserError):
    """The request is understood and against a rule: the manifest's, the tenant's, or of the state that the job is in."""


class TookTooLong(TemporaryError):
    """What was waited for has not come within the time given; it may still come."""


_STATES = {"COMPLETED": Exit.OK, "FAILED": Exit.JOB_FAILED, "HALTED": Exit.JOB_HALTED}
_HTTP_CREDENTIALS = frozenset({401, 403})


def exit_of_state(state: str) -> Exit:
    """The exit code of a command that waited for a job's end."""
    return _STATES[str(state)]


def exit_of(error: FfdlError) -> Exit:
    """The exit code that an error ends a command with.

    The object store's errors name theirs themselves (65, 66, 69, 74); the others are told apart by kind.
    """
    from ffdl_ops.core.jobs.problems import Problems

    own = getattr(error, "code", None)
    if isinstance(own, int) and own in (Exit.DATA, Exit.CREDENTIALS, Exit.UNREACHABLE, Exit.DISK):
        return Exit(own)
    if getattr(error, "status", None) in _HTTP_CREDENTIALS:
        return Exit.CREDENTIALS
    if isinstance(error, TookTooLong):
        return Exit.TIME_OUT
    if isinstance(error, TemporaryError):
        return Exit.UNREACHABLE
    if isinstance(error, UserError) and not isinstance(error, (Problems, Refusal)):
        return Exit.USAGE
    return Exit.REFUSED

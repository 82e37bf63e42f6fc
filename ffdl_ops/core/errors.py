"""The roots of every error this project raises on purpose.

A caller decides by the root alone: a `UserError` is shown as it is and never retried, a `PermanentError` ends the
job, a `TemporaryError` may be tried again after its delay.
"""

from __future__ import annotations

__all__ = ["FfdlError", "PermanentError", "TemporaryError", "UserError"]


class FfdlError(Exception):
    """Root of the project's own errors; its message is written for the person who reads it."""


class UserError(FfdlError):
    """What a person asked for can't be done as asked; the message names field, value, limit and what to do."""


class PermanentError(FfdlError):
    """Trying again would fail in the same way."""


class TemporaryError(FfdlError):
    """Trying again later may work.

    :param message: what failed, for a person.
    :param delay_s: seconds to wait before the next try.
    """

    def __init__(self, message: str, *, delay_s: float = 5.0) -> None:
        super().__init__(message)
        self.delay_s = delay_s

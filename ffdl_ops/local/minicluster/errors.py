"""Refusals as Kubernetes writes them: a Status object with code, reason and message."""

from __future__ import annotations

from typing import Any

__all__ = ["ApiError"]


class ApiError(Exception):
    """A request that is answered with a Status.

    :param code: the HTTP status.
    :param reason: Kubernetes' word for it.
    """

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details or {}

    @classmethod
    def not_found(cls, kind: str, name: str) -> ApiError:
        """404."""
        return cls(404, "NotFound", f'{kind} "{name}" not found', {"name": name, "kind": kind})

    @classmethod
    def exists(cls, kind: str, name: str) -> ApiError:
        """409: the name is taken."""
        return cls(409, "AlreadyExists", f'{kind} "{name}" already exists', {"name": name, "kind": kind})

    @classmethod
    def conflict(cls, kind: str, name: str) -> ApiError:
        """409: the writer has not seen the newest version."""
        text = (
            f'Operation cannot be fulfilled on {kind} "{name}": the object has been modified; please apply your changes'
        )
        return cls(409, "Conflict", f"{text} to the latest version and try again", {"name": name, "kind": kind})

    @classmethod
    def invalid(cls, kind: str, name: str, field: str, why: str) -> ApiError:
        """422: a field is wrong."""
        cause = {"reason": "FieldValueInvalid", "message": why, "field": field}
        text = f'{kind} "{name}" is invalid: {field}: {why}'
        return cls(422, "Invalid", text, {"name": name, "kind": kind, "causes": [cause]})

    def status(self) -> dict[str, Any]:
        """The Status object."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }

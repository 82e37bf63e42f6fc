"""Refusals as the Kubernetes API words them: each becomes a ``Status`` object with its HTTP code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ffdl_ops.core.errors import FfdlError

__all__ = [
    "ApiError", "Cause", "already_exists", "bad_request", "conflict", "expired", "forbidden", "invalid",
    "method_not_allowed", "not_found", "unauthorized", "unsupported_media",
]  # fmt: skip

_DETAILS = dict[str, Any]


@dataclass(frozen=True)
class Cause:
    """One field's problem in a 422.

    :param field: path such as ``spec.containers[0].image``.
    :param reason: ``FieldValueInvalid``, ``FieldValueRequired``, ``FieldValueNotSupported``, ``FieldValueDuplicate``,
        ``FieldValueNotFound`` or ``FieldValueForbidden``.
    :param message: the problem, as the real server words it.
    """

    field: str
    reason: str
    message: str


class ApiError(FfdlError):
    """A request that is refused.

    :param code: HTTP status.
    :param reason: Kubernetes' word for it ("NotFound", …).
    :param message: for a person.
    :param details: the Status object's details.
    """

    def __init__(self, code: int, reason: str, message: str, details: _DETAILS | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details or {}

    def status(self) -> dict[str, Any]:
        """The refusal as a Status object."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            body["details"] = self.details
        return body


def _where(resource: str, name: str, group: str = "") -> tuple[str, _DETAILS]:
    details: _DETAILS = {"name": name, "kind": resource}
    if group:
        details["group"] = group
    return (f"{resource}.{group}" if group else resource), details


def not_found(resource: str, name: str, group: str = "") -> ApiError:
    """404: the object does not exist."""
    qualified, details = _where(resource, name, group)
    return ApiError(404, "NotFound", f'{qualified} "{name}" not found', details)


def already_exists(resource: str, name: str, group: str = "") -> ApiError:
    """409: the name is taken."""
    qualified, details = _where(resource, name, group)
    return ApiError(409, "AlreadyExists", f'{qualified} "{name}" already exists', details)


def conflict(resource: str, name: str, why: str, group: str = "") -> ApiError:
    """409: the object is not what the caller thinks it is."""
    qualified, details = _where(resource, name, group)
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on {qualified} "{name}": {why}', details)


def forbidden(resource: str, name: str, why: str, group: str = "") -> ApiError:
    """403, as quotas and admission answer."""
    qualified, details = _where(resource, name, group)
    return ApiError(403, "Forbidden", f'{qualified} "{name}" is forbidden: {why}', details)


def invalid(kind: str, name: str, causes: Sequence[Cause], group: str = "") -> ApiError:
    """422 with all causes at once."""
    qualified = f"{kind}.{group}" if group else kind
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details: _DETAILS = {"name": name, "kind": kind}
    if group:
        details["group"] = group
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {text}', details)


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    """410: the asked-for version is no longer kept; the caller must list again."""
    return ApiError(410, "Expired", message)


def unauthorized() -> ApiError:
    """401."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> ApiError:
    """405."""
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unsupported_media(content_type: str, supported: Sequence[str]) -> ApiError:
    """415."""
    wanted = ", ".join(supported)
    message = (
        f"the body of the request was in an unknown format ({content_type}) - accepted media types include: {wanted}"
    )
    return ApiError(415, "UnsupportedMediaType", message)

"""Who may do what on the embedded MLflow, before MLflow's own permissions say on which experiment.

MLflow's log-in app lets everybody who has a log-in make experiments, models and prompts, and list all users, whatever the
permissions say. Here the platform's writer and administrators write; everybody else reads, and does not list people. The
server loads this module (`authorization_function`) and calls it for every request.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Response
    from werkzeug.datastructures import Authorization

__all__ = ["WRITER", "authenticate", "reads"]

WRITER = "ffdl-writer"
"""The user as whom the platform writes its records."""

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
# Questions that are too long for an address.
_SEARCHES = re.compile(r"(/(ajax-)?api/\d\.\d/mlflow/[a-z-]+/search(-datasets)?|/graphql)")
_PEOPLE = re.compile(r"/(ajax-)?api/\d\.\d/mlflow/users/list")


def authenticate() -> Authorization | Response:
    """Who asks; or the answer 401 or 403, as MLflow wants it from its `authorization_function`."""
    from flask import Response, request
    from mlflow.server import auth

    who = auth.authenticate_request_basic_auth()
    if isinstance(who, Response) or reads(request.method, request.path):
        return who
    if who.username == WRITER or auth.store.get_user(str(who.username)).is_admin:
        return who
    return auth.make_forbidden_response()


def reads(method: str, path: str) -> bool:
    """Whether a request only asks for what the asking user may see anyhow."""
    if method in _READING:
        return _PEOPLE.fullmatch(path) is None
    return method == "POST" and _SEARCHES.fullmatch(path) is not None

"""MLflow's REST interface, within a time limit.

Why not MLflow's own client: importing it loads pandas, FastAPI and more (1.1 to 1.4 s measured, in each of
Airflow's short-lived task processes; this module 0.05 s), and its retries go on for minutes, while a stage of
a job must never wait for a record-keeper. The calls used are of the documented, stable interface
``/api/2.0/mlflow``.

Credentials are given, or come from the address or from MLflow's own variables (``MLFLOW_TRACKING_TOKEN``, or
``MLFLOW_TRACKING_USERNAME`` and ``MLFLOW_TRACKING_PASSWORD``), in this order; passwords and tokens are never part of a
message.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from ffdl_ops.core.errors import PermanentError, TemporaryError

if TYPE_CHECKING:
    from urllib3 import PoolManager

__all__ = ["MlflowApi", "TrackingRefused", "TrackingUnavailable"]

_CONNECT_S = 2.0
_FIRST_PAUSE_S = 0.2
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})


class TrackingUnavailable(TemporaryError):
    """MLflow did not answer within the time limit."""


class TrackingRefused(PermanentError):
    """MLflow refused a request.

    :param message: what was refused, for a person.
    :param code: MLflow's error code, such as ``RESOURCE_ALREADY_EXISTS``.
    """

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class MlflowApi:
    """Calls of one MLflow server; may be shared by threads, not across a fork.

    :param uri: the server's address, ``http(s)://[user:password@]host[:port][/prefix]``.
    :param login: user and password; without it the address or the environment has them.
    :param budget_s: seconds that one call may take, with its retries.
    """

    def __init__(self, uri: str, *, login: tuple[str, str] | None = None, budget_s: float = 10.0) -> None:
        parts = urlsplit(uri)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PermanentError("MLflow's address has to be http://host:port or https://host:port.")
        self.base = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
        self._budget_s = budget_s
        user, password = login or _login(parts.username, parts.password)
        self._who = f"user {user}" if user else "a token" if _token() else "nobody"
        self._headers = {"Content-Type": "application/json", **_authorization(user, password)}
        self._pool = _pool()

    def get(self, path: str, fields: Mapping[str, str]) -> dict[str, Any]:
        """Read something.

        :raises TrackingUnavailable: no answer within the time limit.
        :raises TrackingRefused: MLflow said no.
        """
        return self._call("GET", path, fields=dict(fields))

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Write something; every call made here may be repeated without harm. Errors as in `get`."""
        return self._call("POST", path, body=json.dumps(body, allow_nan=False).encode())

    def send(self, method: str, path: str, body: Mapping[str, str], *, version: str = "2.0") -> dict[str, Any]:
        """A call of another method, or of another version of the interface. Errors as in `get`."""
        if method == "GET":
            return self._call(method, path, fields=dict(body), version=version)
        return self._call(method, path, body=json.dumps(body).encode(), version=version)

    def _call(
        self,
        method: str,
        path: str,
        *,
        fields: dict[str, str] | None = None,
        body: bytes | None = None,
        version: str = "2.0",
    ) -> dict[str, Any]:
        import urllib3

        deadline = time.monotonic() + self._budget_s
        pause = _FIRST_PAUSE_S
        while True:
            left = max(0.05, deadline - time.monotonic())
            limit = urllib3.Timeout(connect=min(_CONNECT_S, left), total=left)
            try:
                answer = self._pool.request(
                    method,
                    f"{self.base}/api/{version}/mlflow/{path}",
                    fields=fields,
                    body=body,
                    headers=self._headers,
                    timeout=limit,
                    retries=False,
                    redirect=False,
                )
                if answer.status == 200:
                    return _decoded(answer.data, path)
                if answer.status not in _RETRIED:
                    raise self._refusal(answer.status, answer.data, path)
                problem = f"it answered {answer.status}"
            except urllib3.exceptions.HTTPError as error:
                problem = type(error).__name__
            if time.monotonic() + pause >= deadline:
                raise TrackingUnavailable(
                    f"MLflow at {self.base} did not take {path} within {self._budget_s:g} s: {problem}. "
                    "The job goes on; what is missing is written when MLflow is back."
                )
            time.sleep(pause)
            pause = min(2.0, pause * 2)

    def _refusal(self, status: int, data: bytes, path: str) -> TrackingRefused:
        """The error that a refusal stands for. What a server says of credentials is not repeated."""
        if status == 401:
            return TrackingRefused(
                f"MLflow at {self.base} did not accept the credentials of {self._who} for {path}; `ffdl up` sets those of "
                "the embedded MLflow, MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD (or …_TOKEN) those of another.",
                code="UNAUTHENTICATED",
            )
        if status == 403:
            return TrackingRefused(
                f"MLflow at {self.base} does not let {self._who} do {path}; an administrator of MLflow can grant it.",
                code="PERMISSION_DENIED",
            )
        try:
            answer = json.loads(data)
            code, message = str(answer["error_code"]), str(answer.get("message", ""))
        except (ValueError, KeyError, TypeError):
            code, message = "", f"HTTP {status}"
        return TrackingRefused(f"MLflow refused {path}: {message[:500]}", code=code)


def _pool() -> PoolManager:
    import urllib3

    return urllib3.PoolManager(maxsize=4, ca_certs=os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH") or None)


def _token() -> str | None:
    return os.environ.get("MLFLOW_TRACKING_TOKEN")


def _login(user: str | None, password: str | None) -> tuple[str, str]:
    """User and password of an address, else of the environment; no user when neither has one."""
    name = unquote(user) if user else os.environ.get("MLFLOW_TRACKING_USERNAME", "")
    return name, unquote(password) if password else os.environ.get("MLFLOW_TRACKING_PASSWORD", "")


def _authorization(user: str, password: str) -> dict[str, str]:
    import urllib3

    if user:
        return {"Authorization": urllib3.make_headers(basic_auth=f"{user}:{password}")["authorization"]}
    token = _token()
    return {"Authorization": f"Bearer {token}"} if token else {}


def _decoded(data: bytes, path: str) -> dict[str, Any]:
    try:
        value = json.loads(data) if data else {}
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise TrackingRefused(f"MLflow answered {path} with something that is not JSON; check its address.", code="")
    return value

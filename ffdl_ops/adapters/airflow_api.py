"""Airflow's public REST API (`/api/v2`, Airflow 3): the calls that this platform makes of it.

Source: the API's own description, `airflow/api_fastapi/core_api/openapi/v2-rest-api-generated.yaml`, and
`/auth/token` of the auth manager. Nothing of Airflow is imported: this speaks to a server.

Every call may be repeated: a run is triggered under an id of the caller's own, and a run that is there already under
this id counts as triggered. A call that changed something and whose answer was lost is not made again blindly: a clear
looks first whether the run has left its end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from ffdl_ops.core.errors import PermanentError, TemporaryError

if TYPE_CHECKING:
    from urllib3 import PoolManager

    from ffdl_ops.adapters.settings import Settings

__all__ = ["AirflowApi", "AirflowApiError", "AirflowUnavailable"]

_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_ENDED = frozenset({"success", "failed"})
_CONNECT_S = 3.0
_READ_S = 30.0
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 3.0
_PAGE = 100
_MAX_WORDS = 2000


class AirflowUnavailable(TemporaryError):
    """Airflow's API server gave no usable answer within the time limit."""


class AirflowApiError(PermanentError):
    """Airflow refused a request; the message carries its own words.

    :param message: what was refused, for a person.
    :param status: the HTTP status.
    """

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class AirflowApi:
    """One Airflow, as one of its users. May be shared by threads, not across a fork.

    :param url: address of the API server, without `/api/v2`.
    :param username: who asks; with `password` exchanged for a token that is kept in memory only.
    :param budget_s: seconds that one call may take, with its retries.

    Each method raises :class:`AirflowUnavailable` when Airflow does not answer, and :class:`AirflowApiError` when it
    says no.
    """

    def __init__(self, url: str, username: str, password: str, *, budget_s: float = 30.0) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise PermanentError("Airflow's address has to be http://host:port or https://host:port.")
        self.url = url.rstrip("/")
        self._username = username
        self._password = password
        self._budget_s = budget_s
        self._token: str | None = None
        self._connections: PoolManager | None = None

    @classmethod
    def from_settings(cls, settings: Settings, *, budget_s: float = 30.0) -> AirflowApi:
        """The installation's Airflow, as the account that its settings name."""
        return cls(settings.airflow_url, *settings.airflow_login, budget_s=budget_s)

    def health(self) -> dict[str, str]:
        """The status ("healthy", "unhealthy", …) of each component, by name; needs no account."""
        answer = self._call("GET", "/api/v2/monitor/health", authorized=False)
        parts = {name: part for name, part in answer.items() if isinstance(part, dict)}
        return {name: str(part.get("status") or "unknown") for name, part in parts.items()}

    def trigger(self, dag_id: str, run_id: str, conf: Mapping[str, Any], *, note: str | None = None) -> str:
        """Start a run under an id of the caller's own; one that is there under this id already is left as it is.

        :param conf: the run's configuration; everyone who may see the DAG can read it.
        :returns: the run's state.
        """
        body = {"dag_run_id": run_id, "conf": dict(conf), "logical_date": None, "note": note}
        try:
            answer = self._call("POST", f"/api/v2/dags/{_part(dag_id)}/dagRuns", body)
        except AirflowApiError as error:
            if error.status != 409:
                raise
            # Ours, from a try whose answer was lost (Airflow may answer 500 and have made the run).
            return self.run_state(dag_id, run_id) or "queued"
        return str(answer.get("state"))

    def run(self, dag_id: str, run_id: str) -> dict[str, Any] | None:
        """A run as Airflow describes it, or ``None`` when there is none."""
        return self._found("GET", _run_path(dag_id, run_id))

    def run_state(self, dag_id: str, run_id: str) -> str | None:
        """A run's state ("queued", "running", "success", "failed"), or ``None`` when there is no such run."""
        found = self.run(dag_id, run_id)
        return str(found["state"]) if found else None

    def active_runs(self, dag_id: str) -> Iterator[tuple[str, str]]:
        """Id and state of each run that has not ended, the newest first."""
        seen = 0
        while True:
            query = urlencode({"state": ["queued", "running"], "limit": _PAGE, "offset": seen, "order_by": "-id"}, doseq=True)
            answer = self._call("GET", f"/api/v2/dags/{_part(dag_id)}/dagRuns?{query}")
            page = answer.get("dag_runs") or []
            seen += len(page)
            yield from ((str(one["dag_run_id"]), str(one["state"])) for one in page)
            if not page or seen >= int(answer.get("total_entries") or 0):
                return

    def task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The tasks of a run as Airflow describes them."""
        found: list[dict[str, Any]] = []
        while True:
            query = urlencode({"limit": _PAGE, "offset": len(found), "order_by": "id"})
            answer = self._found("GET", f"{_run_path(dag_id, run_id)}/taskInstances?{query}") or {}
            page = answer.get("task_instances") or []
            found += page
            if not page or len(found) >= int(answer.get("total_entries") or 0):
                return found

    def tasks_in_state(self, dag_id: str, state: str) -> list[dict[str, Any]]:
        """The tasks of all runs of a DAG that are in a state now, 100 at most."""
        query = urlencode({"state": state, "limit": _PAGE})
        found = self._found("GET", f"/api/v2/dags/{_part(dag_id)}/dagRuns/~/taskInstances?{query}") or {}
        return list(found.get("task_instances") or ())

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """The state of each task by its id; ``None`` for one that Airflow has not looked at."""
        return {str(one["task_id"]): one.get("state") for one in self.task_instances(dag_id, run_id)}

    def task_log(self, dag_id: str, run_id: str, task_id: str, try_number: int | None = None) -> str:
        """What a task has logged, a line each, with times; empty when there is nothing (yet).

        :param try_number: from 1; ``None`` is the newest try.
        """
        base = f"{_run_path(dag_id, run_id)}/taskInstances/{_part(task_id)}"
        if try_number is None:
            task = self._found("GET", base)
            try_number = int((task or {}).get("try_number") or 0)
        if try_number < 1:
            return ""
        answer = self._found("GET", f"{base}/logs/{try_number}?full_content=true")
        return "\n".join(_log_line(entry) for entry in (answer or {}).get("content") or ())

    def mark_run_failed(self, dag_id: str, run_id: str) -> str | None:
        """Mark a run as failed, as the button does: its teardowns still run. It halts the job.

        :returns: the run's state, or ``None`` when there is no such run.
        """
        answer = self._found("PATCH", f"{_run_path(dag_id, run_id)}?update_mask=state", {"state": "failed"})
        return str(answer["state"]) if answer else None

    def clear_run(self, dag_id: str, run_id: str, *, only_failed: bool = False) -> None:
        """Clear a run, as the button does: its tasks run again. It resumes the job.

        :param only_failed: clear only the tasks that failed.
        """
        self._clear(dag_id, run_id, f"{_run_path(dag_id, run_id)}/clear", {"only_failed": only_failed})

    def clear_tasks(self, dag_id: str, run_id: str, task_ids: Sequence[str]) -> None:
        """Clear these tasks of a run, whatever their state, and nothing else."""
        body = {
            "dag_run_id": run_id,
            "task_ids": list(task_ids),
            "only_failed": False,
            "reset_dag_runs": True,
            "include_downstream": False,
            "include_upstream": False,
        }
        self._clear(dag_id, run_id, f"/api/v2/dags/{_part(dag_id)}/clearTaskInstances", body)

    def has_dag(self, dag_id: str) -> bool:
        """Whether Airflow knows a DAG and it is not paused."""
        found = self._found("GET", f"/api/v2/dags/{_part(dag_id)}")
        return found is not None and not found.get("is_paused")

    def import_errors(self) -> str:
        """What Airflow could not import, in short; empty when it could all."""
        found = self._found("GET", "/api/v2/importErrors") or {}
        return "; ".join(f"{one['filename']}: {one['stack_trace'][-400:]}" for one in found.get("import_errors", []))

    def run_url(self, dag_id: str, run_id: str) -> str:
        """The run's page, for people."""
        return f"{self.url}/dags/{_part(dag_id)}/runs/{_part(run_id)}"

    def _clear(self, dag_id: str, run_id: str, path: str, body: dict[str, Any]) -> None:
        """Clear once: after an answer that was lost, only if the run still stands at its end."""
        deadline = time.monotonic() + self._budget_s
        ended = self.run_state(dag_id, run_id) in _ENDED
        while True:
            try:
                self._call("POST", path, {"dry_run": False, **body}, budget_s=0)
                return
            except AirflowUnavailable:
                if ended and self.run_state(dag_id, run_id) not in _ENDED:
                    return
                if time.monotonic() > deadline:
                    raise
                time.sleep(_FIRST_PAUSE_S)

    def _found(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """An answer, or ``None`` for 404."""
        try:
            return self._call(method, path, body)
        except AirflowApiError as error:
            if error.status == 404:
                return None
            raise

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        authorized: bool = True,
        budget_s: float | None = None,
    ) -> dict[str, Any]:
        """One call, tried again while Airflow is away or busy, and once more with a fresh token when refused.

        :param budget_s: 0 tries once.
        """
        import urllib3

        deadline = time.monotonic() + (self._budget_s if budget_s is None else budget_s)
        pause = _FIRST_PAUSE_S
        renewed = False
        while True:
            try:
                status, data = self._send(method, path, body, authorized)
                if status < 300:
                    return _decoded(data, path)
                if status == 401 and authorized and not renewed:
                    renewed, self._token = True, None
                    continue
                if status not in _RETRIED:
                    raise AirflowApiError(_refusal(status, data, method, path), status=status)
                problem = f"it answered {status}"
            except urllib3.exceptions.HTTPError as error:
                problem = type(error).__name__
            if time.monotonic() + pause >= deadline:
                raise AirflowUnavailable(
                    f"Airflow at {self.url} can't be reached ({_what(method, path)}: {problem}); see `ffdl status`."
                )
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE_S, pause * 2)

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, authorized: bool) -> tuple[int, bytes]:
        headers = {"Accept": "application/json"}
        if authorized:
            headers["Authorization"] = f"Bearer {self._bearer()}"
        return self._request(method, path, body, headers)

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        import urllib3

        if self._connections is None:
            self._connections = urllib3.PoolManager(maxsize=4)
        data = None
        if body is not None:
            data = json.dumps(body, allow_nan=False).encode()
            headers["Content-Type"] = "application/json"
        limit = urllib3.Timeout(connect=_CONNECT_S, read=_READ_S)
        answer = self._connections.request(
            method, self.url + path, body=data, headers=headers, timeout=limit, retries=False, redirect=False
        )
        return answer.status, answer.data

    def _bearer(self) -> str:
        """The token, asked for when there is none."""
        import urllib3

        if self._token is None:
            account = {"username": self._username, "password": self._password}
            status, data = self._request("POST", "/auth/token", account, {"Accept": "application/json"})
            if status in _RETRIED:
                raise urllib3.exceptions.HTTPError(f"/auth/token answered {status}")
            if status >= 300:
                raise AirflowApiError(
                    f"Airflow at {self.url} does not accept the account {self._username!r} (HTTP {status}); "
                    "check the user name and password that the platform's endpoints file names.",
                    status=status,
                )
            self._token = str(_decoded(data, "/auth/token").get("access_token", ""))
        return self._token


def _part(text: str) -> str:
    """A path's part: run ids hold ``:`` and ``+``."""
    return quote(text, safe="")


def _run_path(dag_id: str, run_id: str) -> str:
    return f"/api/v2/dags/{_part(dag_id)}/dagRuns/{_part(run_id)}"


def _what(method: str, path: str) -> str:
    return f"{method} {path.partition('?')[0]}"


def _decoded(data: bytes, path: str) -> dict[str, Any]:
    try:
        value = json.loads(data) if data else {}
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise AirflowApiError(
            f"What answered {path.partition('?')[0]} is not Airflow's API; check its address.", status=502
        )
    return value


def _refusal(status: int, data: bytes, method: str, path: str) -> str:
    """Airflow's own words; a validation's list as `place: reason`."""
    try:
        detail = json.loads(data)["detail"]
    except (ValueError, KeyError, TypeError):
        detail = f"HTTP {status}"
    if isinstance(detail, list):
        detail = "; ".join(
            f"{'.'.join(str(part) for part in one.get('loc', ()))}: {one.get('msg')}"
            for one in detail
            if isinstance(one, dict)
        )
    elif isinstance(detail, dict):
        detail = detail.get("reason") or detail.get("message") or json.dumps(detail)
    hint = " This account may not do that." if status == 403 else ""
    return f"Airflow refused {_what(method, path)} (HTTP {status}): {str(detail)[:_MAX_WORDS]}{hint}"


def _log_line(entry: Any) -> str:
    """A log entry as a line: its time, its words, and the error that it tells of."""
    if not isinstance(entry, dict):
        return str(entry)
    words = [str(entry[name]) for name in ("timestamp", "event") if entry.get(name)]
    for error in entry.get("error_detail") or ():
        if isinstance(error, dict):
            words.append(f"{error.get('exc_type', 'error')}: {error.get('exc_value', '')}")
    return " ".join(words)

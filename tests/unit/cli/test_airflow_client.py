"""The client of Airflow's REST API: what it sends is what Airflow describes; what it repeats does no harm."""

from __future__ import annotations

import importlib.util
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema
import pytest
import yaml

from ffdl_ops.adapters.airflow_api import AirflowApi, AirflowApiError, AirflowUnavailable
from ffdl_ops.core.errors import PermanentError

DAG, RUN = "train__vision", "manual__2026-01-01T12:00:00+00:00/x"
ROOT = f"/api/v2/dags/{DAG}/dagRuns"
ENCODED = "manual__2026-01-01T12%3A00%3A00%2B00%3A00%2Fx"
Answer = tuple[int, Any]


class Server:
    """Airflow as far as a test says: a list of answers for each method and path (the last one stays)."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {"POST /auth/token": [(201, {"access_token": "token-1"})]}
        self.asked: list[tuple[str, str, Any, str | None]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                owner.asked.append((self.command, self.path, body, self.headers.get("Authorization")))
                status, answer = owner.answer(f"{self.command} {urlsplit(self.path).path}")
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = handle_one

            def log_message(self, *args: Any) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def answer(self, what: str) -> Answer:
        known = self.answers.get(what) or [(404, {"detail": "not found"})]
        return known.pop(0) if len(known) > 1 else known[0]

    def made(self, method: str, path: str) -> list[Any]:
        """The bodies of the calls of this kind."""
        return [body for verb, where, body, _ in self.asked if verb == method and urlsplit(where).path == path]


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.http.shutdown()
    running.http.server_close()


@pytest.fixture
def api(server: Server) -> AirflowApi:
    return AirflowApi(server.url, "ann", "secret-word", budget_s=2.0)


def test_a_run_is_triggered_under_the_callers_own_id(server: Server, api: AirflowApi) -> None:
    server.answers[f"POST {ROOT}"] = [(200, {"state": "queued"})]
    assert api.trigger(DAG, RUN, {"learners": 2}) == "queued"
    assert server.asked[0][:3] == ("POST", "/auth/token", {"username": "ann", "password": "secret-word"})
    method, path, body, bearer = server.asked[1]
    assert (method, path, bearer) == ("POST", ROOT, "Bearer token-1")
    assert body == {"dag_run_id": RUN, "conf": {"learners": 2}, "logical_date": None, "note": None}


def test_a_trigger_whose_answer_was_lost_makes_one_run(server: Server, api: AirflowApi) -> None:
    """Airflow may answer 500 and have made the run; the next try then is told 409."""
    server.answers[f"POST {ROOT}"] = [(500, {"detail": "oops"}), (409, {"detail": "exists"})]
    server.answers[f"GET {ROOT}/{ENCODED}"] = [(200, {"state": "running"})]
    assert api.trigger(DAG, RUN, {}) == "running"
    assert [body["dag_run_id"] for body in server.made("POST", ROOT)] == [RUN, RUN]


def test_what_airflow_refuses_is_told_in_its_words_and_not_tried_again(server: Server, api: AirflowApi) -> None:
    server.answers[f"POST {ROOT}"] = [(400, {"detail": "Invalid input for param gpus: -1 is less than 0"})]
    with pytest.raises(AirflowApiError, match="gpus: -1") as refused:
        api.trigger(DAG, RUN, {"gpus": -1})
    assert refused.value.status == 400
    assert len(server.made("POST", ROOT)) == 1


def test_a_validations_list_is_told_by_place(server: Server, api: AirflowApi) -> None:
    server.answers[f"POST {ROOT}"] = [(422, {"detail": [{"loc": ["body", "conf"], "msg": "must be an object"}]})]
    with pytest.raises(AirflowApiError, match=r"body\.conf: must be an object"):
        api.trigger(DAG, RUN, {})


def test_a_token_that_has_run_out_is_renewed_once(server: Server, api: AirflowApi) -> None:
    server.answers["POST /auth/token"] = [(201, {"access_token": "old"}), (201, {"access_token": "new"})]
    server.answers[f"GET {ROOT}/{ENCODED}"] = [(401, {"detail": "expired"}), (200, {"state": "success"})]
    assert api.run_state(DAG, RUN) == "success"
    assert server.asked[-1][3] == "Bearer new"


def test_an_account_that_is_not_accepted_is_named_without_its_password(server: Server, api: AirflowApi) -> None:
    server.answers["POST /auth/token"] = [(401, {"detail": "Invalid credentials"})]
    with pytest.raises(AirflowApiError, match="'ann'") as refused:
        api.run_state(DAG, RUN)
    assert "secret-word" not in str(refused.value)
    assert refused.value.status == 401


def test_an_outage_ends_within_its_budget_and_names_the_address(server: Server) -> None:
    api = AirflowApi(server.url, "ann", "secret-word", budget_s=0.3)
    server.answers[f"GET {ROOT}/{ENCODED}"] = [(503, {})]
    with pytest.raises(AirflowUnavailable, match=re.escape(server.url)):
        api.run_state(DAG, RUN)
    assert len(server.made("GET", f"{ROOT}/{ENCODED}")) > 1


def test_a_server_that_is_not_there_is_an_outage() -> None:
    with pytest.raises(AirflowUnavailable):
        AirflowApi("http://127.0.0.1:9", "ann", "x", budget_s=0.1).health()


def test_what_is_not_airflow_is_said(server: Server, api: AirflowApi) -> None:
    server.answers[f"GET {ROOT}/{ENCODED}"] = [(200, b"<html>hello</html>")]
    with pytest.raises(AirflowApiError, match="not Airflow"):
        api.run_state(DAG, RUN)


@pytest.mark.parametrize("url", ["", "localhost:8080", "ftp://x", "http://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(PermanentError):
        AirflowApi(url, "ann", "x")


def test_a_run_that_is_not_there_is_none(api: AirflowApi) -> None:
    assert api.run_state(DAG, RUN) is None
    assert api.task_states(DAG, RUN) == {}
    assert api.task_log(DAG, RUN, "plan") == ""
    assert api.mark_run_failed(DAG, RUN) is None


def test_all_runs_that_have_not_ended_are_found_page_by_page(server: Server, api: AirflowApi) -> None:
    pages = [[{"dag_run_id": "b", "state": "queued"}], [{"dag_run_id": "a", "state": "running"}]]
    server.answers[f"GET {ROOT}"] = [(200, {"dag_runs": page, "total_entries": 2}) for page in pages]
    assert list(api.active_runs(DAG)) == [("b", "queued"), ("a", "running")]


def test_halting_patches_the_runs_state(server: Server, api: AirflowApi) -> None:
    server.answers[f"PATCH {ROOT}/{ENCODED}"] = [(502, {}), (200, {"state": "failed"})]
    assert api.mark_run_failed(DAG, RUN) == "failed"
    assert server.made("PATCH", f"{ROOT}/{ENCODED}") == [{"state": "failed"}] * 2


def test_a_clear_is_for_real_and_of_the_whole_run(server: Server, api: AirflowApi) -> None:
    server.answers[f"POST {ROOT}/{ENCODED}/clear"] = [(200, {})]
    api.clear_run(DAG, RUN)
    api.clear_run(DAG, RUN, only_failed=True)
    sent = server.made("POST", f"{ROOT}/{ENCODED}/clear")
    assert sent == [{"dry_run": False, "only_failed": False}, {"dry_run": False, "only_failed": True}]


def test_a_clear_whose_answer_was_lost_is_not_made_twice(server: Server, api: AirflowApi) -> None:
    """The run has left its end: its tasks run again already, and another clear would stop them."""
    server.answers[f"GET {ROOT}/{ENCODED}"] = [(200, {"state": "failed"}), (200, {"state": "queued"})]
    server.answers[f"POST {ROOT}/{ENCODED}/clear"] = [(500, {})]
    api.clear_run(DAG, RUN)
    assert len(server.made("POST", f"{ROOT}/{ENCODED}/clear")) == 1


def test_a_clear_that_did_nothing_is_made_again(server: Server, api: AirflowApi) -> None:
    server.answers[f"GET {ROOT}/{ENCODED}"] = [(200, {"state": "failed"})]
    server.answers[f"POST {ROOT}/{ENCODED}/clear"] = [(500, {}), (200, {})]
    api.clear_run(DAG, RUN)
    assert len(server.made("POST", f"{ROOT}/{ENCODED}/clear")) == 2


def test_tasks_are_cleared_alone_whatever_their_state(server: Server, api: AirflowApi) -> None:
    server.answers[f"POST /api/v2/dags/{DAG}/clearTaskInstances"] = [(200, {"task_instances": [], "total_entries": 0})]
    api.clear_tasks(DAG, RUN, ["learners", "monitor"])
    (body,) = server.made("POST", f"/api/v2/dags/{DAG}/clearTaskInstances")
    assert (body["dry_run"], body["only_failed"], body["include_downstream"]) == (False, False, False)
    assert (body["dag_run_id"], body["task_ids"]) == (RUN, ["learners", "monitor"])


def test_the_tasks_of_all_pages_are_read(server: Server, api: AirflowApi) -> None:
    pages = [["plan", "admit"], ["learners"]]
    server.answers[f"GET {ROOT}/{ENCODED}/taskInstances"] = [
        (200, {"task_instances": [{"task_id": name, "state": None} for name in page], "total_entries": 3})
        for page in pages
    ]
    assert api.task_states(DAG, RUN) == {"plan": None, "admit": None, "learners": None}
    offsets = [parse_qs(urlsplit(path).query)["offset"] for _, path, _, _ in server.asked if "taskInstances" in path]
    assert offsets == [["0"], ["2"]]


def test_a_log_is_read_of_the_newest_try_with_times_and_errors(server: Server, api: AirflowApi) -> None:
    task = f"{ROOT}/{ENCODED}/taskInstances/plan"
    server.answers[f"GET {task}"] = [(200, {"try_number": 2})]
    error = [{"exc_type": "AirflowFailException", "exc_value": "no such bucket"}]
    entries = [
        {"event": "::group::Log message source details"},
        {"timestamp": "2026-01-01T12:00:00Z", "event": "Refused: gpus"},
        {"timestamp": "2026-01-01T12:00:01Z", "event": "Task failed", "error_detail": error},
    ]
    server.answers[f"GET {task}/logs/2"] = [(200, {"content": entries, "continuation_token": "more"})]
    log = api.task_log(DAG, RUN, "plan")
    assert "2026-01-01T12:00:00Z Refused: gpus\n" in log
    assert "AirflowFailException: no such bucket" in log


def test_health_needs_no_account(server: Server, api: AirflowApi) -> None:
    answer = {"metadatabase": {"status": "healthy"}, "scheduler": {"status": None}, "dag_processor": None}
    server.answers["GET /api/v2/monitor/health"] = [(200, answer)]
    assert api.health() == {"metadatabase": "healthy", "scheduler": "unknown"}
    assert server.asked == [("GET", "/api/v2/monitor/health", None, None)]


def description() -> dict[str, Any]:
    """Airflow's own description of its API, from the installed package."""
    spec = importlib.util.find_spec("airflow")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0]) / "api_fastapi" / "core_api" / "openapi"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    described: dict[str, Any] = yaml.load((folder / "v2-rest-api-generated.yaml").read_text(), Loader=loader)
    return described


CALLS: list[Callable[[AirflowApi], Any]] = [
    lambda api: api.health(),
    lambda api: api.trigger(DAG, RUN, {"a": 1}),
    lambda api: api.run(DAG, RUN),
    lambda api: api.task_states(DAG, RUN),
    lambda api: api.task_log(DAG, RUN, "plan", 1),
    lambda api: api.task_log(DAG, RUN, "plan"),
    lambda api: api.mark_run_failed(DAG, RUN),
    lambda api: api.clear_run(DAG, RUN, only_failed=True),
    lambda api: api.clear_tasks(DAG, RUN, ["plan"]),
]


def test_every_call_is_one_that_airflow_describes(server: Server, api: AirflowApi) -> None:
    for call in CALLS:
        try:
            call(api)
        except AirflowApiError as missing:
            assert missing.status == 404
    described = description()
    calls = [one for one in server.asked if one[1] != "/auth/token"]
    assert len(calls) >= len(CALLS)
    for method, path, body, _ in calls:
        place = urlsplit(path)
        template, operation = _operation(described, method.lower(), place.path)
        names = {one["name"] for one in operation["parameters"]} if "parameters" in operation else set()
        assert set(parse_qs(place.query)) <= names, (template, place.query)
        if body is not None:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            jsonschema.validate(body, {**schema, "components": described["components"]})


def _operation(described: dict[str, Any], method: str, path: str) -> tuple[str, dict[str, Any]]:
    for template, operations in described["paths"].items():
        if method in operations and re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", template), path):
            return template, operations[method]
    raise AssertionError(f"Airflow describes no {method} {path}")

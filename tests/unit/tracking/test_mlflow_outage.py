"""MLflow is down, slow, or says no: calls end in time with one clear error."""

from __future__ import annotations

import base64
import http.server
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ffdl_ops.adapters.tracking.points import Point
from ffdl_ops.adapters.tracking.rest import MlflowApi, TrackingRefused, TrackingUnavailable
from ffdl_ops.adapters.tracking.runs import Tracker
from ffdl_ops.core.errors import PermanentError, TemporaryError


class FakeServer(http.server.ThreadingHTTPServer):
    """Answers from a list, the last one for ever; keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, bytes]] = [(200, b"{}")]
        self.delay_s = 0.0
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.uri = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has given up is no news."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: FakeServer

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.path, dict(self.headers)))
        time.sleep(self.server.delay_s)
        status, body = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    thread = threading.Thread(target=fake.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield fake
    fake.shutdown()
    thread.join()
    fake.server_close()


def test_a_server_that_is_gone_is_given_up_within_the_limit() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        tracker = Tracker(f"http://127.0.0.1:{held.getsockname()[1]}", budget_s=0.6)
        began = time.monotonic()
        with pytest.raises(TrackingUnavailable, match="did not take runs/get within 0.6 s"):
            tracker.log_batch("r", [Point("loss", 1.0, 1, 1)])
        assert time.monotonic() - began < 1.5
    assert issubclass(TrackingUnavailable, TemporaryError)


def test_a_server_that_does_not_answer_is_given_up_within_the_limit(server: FakeServer) -> None:
    server.delay_s = 1.5
    began = time.monotonic()
    with pytest.raises(TrackingUnavailable):
        MlflowApi(server.uri, budget_s=0.5).get("runs/get", {})
    assert time.monotonic() - began < 1.2


def test_a_server_that_comes_back_in_time_is_asked_again(server: FakeServer) -> None:
    server.answers = [(503, b""), (429, b""), (200, b'{"x": 1}')]
    assert MlflowApi(server.uri).get("runs/get", {}) == {"x": 1}
    assert len(server.asked) == 3


def test_a_refusal_is_not_repeated_and_says_what_the_server_said(server: FakeServer) -> None:
    server.answers = [(400, json.dumps({"error_code": "INVALID_PARAMETER_VALUE", "message": "too long"}).encode())]
    with pytest.raises(TrackingRefused, match="too long") as caught:
        MlflowApi(server.uri).post("runs/update", {})
    assert caught.value.code == "INVALID_PARAMETER_VALUE"
    assert len(server.asked) == 1


def test_refused_credentials_name_the_variables_and_not_the_secret(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "pass-phrase")
    server.answers = [(401, b"no")]
    with pytest.raises(TrackingRefused, match="MLFLOW_TRACKING_USERNAME") as caught:
        MlflowApi(server.uri).get("runs/get", {})
    assert "pass-phrase" not in str(caught.value)
    assert server.asked[0][1]["Authorization"].startswith("Basic ")


def test_what_somebody_may_not_do_is_said_with_the_user_and_not_the_secret(server: FakeServer) -> None:
    server.answers = [(403, b"Permission denied: pass-phrase")]
    api = MlflowApi(server.uri, login=("ada", "pass-phrase"))
    with pytest.raises(TrackingRefused, match="does not let user ada do runs/create") as caught:
        api.post("runs/create", {})
    assert caught.value.code == "PERMISSION_DENIED"
    assert "pass-phrase" not in str(caught.value)


def test_a_given_log_in_wins_over_the_addresss_and_the_environments(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "of-another-mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "x")
    uri = server.uri.replace("http://", "http://bob:y@")
    for login, meant in ((("ada", "z"), "ada:z"), (None, "bob:y")):
        server.asked.clear()
        MlflowApi(uri, login=login).get("runs/get", {})
        assert server.asked[0][1]["Authorization"] == "Basic " + base64.b64encode(meant.encode()).decode()


def test_credentials_in_the_address_are_used_and_never_shown(server: FakeServer) -> None:
    api = MlflowApi(server.uri.replace("http://", "http://ada:pass-phrase@"))
    api.get("runs/get", {})
    assert server.asked[0][1]["Authorization"].startswith("Basic ")
    assert "pass-phrase" not in api.base


def test_a_page_that_is_not_mlflows_is_a_clear_error(server: FakeServer) -> None:
    server.answers = [(200, b"<html>")]
    with pytest.raises(TrackingRefused, match="check its address"):
        MlflowApi(server.uri).get("runs/get", {})


@pytest.mark.parametrize("uri", ["sqlite:///x.db", "localhost:5000", "", "http://"])
def test_an_address_that_is_no_server_is_refused(uri: str) -> None:
    with pytest.raises(PermanentError, match="http://host:port"):
        Tracker(uri)


def test_an_unknown_final_status_is_refused_before_any_call() -> None:
    with pytest.raises(TrackingRefused, match="FINISHED, FAILED, KILLED"):
        Tracker("http://127.0.0.1:9").close("r", "HALTED")


def test_the_tracker_does_not_load_mlflow() -> None:
    """Airflow's tasks live for seconds: MLflow's own client takes one of them to import."""
    code = (
        "import sys; from ffdl_ops.adapters.tracking.runs import Tracker; Tracker('http://127.0.0.1:9');"
        "import ffdl_ops.adapters.tracking.metrics;"
        "sys.exit(bool({'mlflow', 'pandas', 'numpy', 'requests'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

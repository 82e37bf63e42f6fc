"""What each log-in may see and do on the embedded MLflow, on a platform that is up."""

from __future__ import annotations

import base64
import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from ffdl_ops.adapters.tracking.rest import MlflowApi, TrackingRefused
from ffdl_ops.adapters.tracking.runs import JobFacts, RunRef, Tracker
from tests.support.platform import Platform
from tests.support.tracking import mlflow_client

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

pytestmark = pytest.mark.slow

OLD, NEW = "/api/2.0/mlflow", "/api/3.0/mlflow"


class Asked:
    """A raw HTTP client with one log-in: MLflow's own hides paths and answers."""

    def __init__(self, platform: Platform, login: tuple[str, str] | None) -> None:
        self._base = platform.settings.mlflow_uri
        word = base64.b64encode(":".join(login).encode()).decode() if login else ""
        self._headers = {"Content-Type": "application/json", **({"Authorization": f"Basic {word}"} if login else {})}

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._base}{path}", data=data, headers=self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()


def login(platform: Platform, tenant: str) -> tuple[str, str]:
    """What a tenant's people log in to Airflow with."""
    name = f"{tenant}-user"
    return name, platform.settings.endpoints["users"][name]


@pytest.fixture(scope="module")
def theirs(platform: Platform) -> Iterator[RunRef]:
    """A run of speech, which vision is not to know of."""
    settings = platform.settings
    tracker = Tracker(settings.mlflow_uri, login=settings.mlflow_login, budget_s=60)
    facts = JobFacts("job-of-speech", "speech", "secret-name", "pytorch", 1, 1)
    run = tracker.ensure_run(facts)
    mlflow_client(settings).log_metric(run.run_id, "loss", 0.5, step=1)
    yield run
    mlflow_client(settings).delete_run(run.run_id)


@pytest.fixture
def vision(platform: Platform) -> MlflowClient:
    return mlflow_client(platform.settings, login(platform, "vision"))


def requests_about(run: RunRef) -> list[tuple[str, str, Any]]:
    """Ways to read or change another's experiment or run, or to find out who or what there is."""
    number, name = run.run_id, "ffdl%2Fspeech"
    query = f'query {{mlflowGetRun(input: {{runId: "{number}"}}) {{run {{info {{runName}}}}}}}}'
    point = {"run_id": number, "key": "loss", "value": 0, "timestamp": 1, "step": 2}
    return [
        ("GET", f"{OLD}/experiments/get?experiment_id={run.experiment_id}", None),
        ("GET", f"{OLD}/experiments/get-by-name?experiment_name={name}", None),
        ("POST", f"{OLD}/experiments/search", {"max_results": 1000, "view_type": "ALL"}),
        ("POST", f"{OLD}/runs/search", {"experiment_ids": [run.experiment_id]}),
        ("GET", f"{OLD}/runs/get?run_id={number}", None),
        ("GET", f"{OLD}/metrics/get-history?run_id={number}&metric_key=loss", None),
        ("GET", f"/ajax-api/2.0/mlflow/metrics/get-history-bulk?run_id={number}&metric_key=loss", None),
        ("GET", f"{OLD}/artifacts/list?run_id={number}", None),
        ("POST", "/graphql", {"query": query}),
        ("POST", f"{OLD}/runs/log-metric", point),
        ("POST", f"{OLD}/runs/log-batch", {"run_id": number, "metrics": [point]}),
        ("POST", f"{OLD}/runs/set-tag", {"run_id": number, "key": "a", "value": "b"}),
        ("POST", f"{OLD}/runs/update", {"run_id": number, "status": "FAILED"}),
        ("POST", f"{OLD}/runs/delete", {"run_id": number}),
        ("POST", f"{OLD}/runs/create", {"experiment_id": run.experiment_id}),
        ("POST", f"{OLD}/experiments/update", {"experiment_id": run.experiment_id, "new_name": "stolen"}),
        ("POST", f"{OLD}/experiments/delete", {"experiment_id": run.experiment_id}),
        ("POST", f"{OLD}/experiments/create", {"name": "ffdl/not-there-yet"}),
        ("POST", f"{OLD}/registered-models/create", {"name": "a-model"}),
        ("GET", f"{OLD}/users/list", None),
        ("GET", "/ajax-api/2.0/mlflow/users/list", None),
        ("GET", f"{OLD}/users/get?username=speech-user", None),
        ("GET", f"{NEW}/users/permissions/list?username=speech-user", None),
        ("POST", f"{OLD}/users/create", {"username": "stranger", "password": "a-long-pass-phrase"}),
        ("PATCH", f"{OLD}/users/update-password", {"username": "speech-user", "password": "a-long-pass-phrase"}),
        ("PATCH", f"{OLD}/users/update-admin", {"username": "vision-user", "is_admin": True}),
        ("DELETE", f"{OLD}/users/delete", {"username": "speech-user"}),
        ("POST", f"{NEW}/users/permissions/grant", {
            "username": "vision-user", "resource_type": "experiment", "resource_id": run.experiment_id,
            "permission": "MANAGE"}),
        ("POST", "/v1/traces", {}),
    ]  # fmt: skip


def test_a_tenants_person_reads_nothing_of_another_tenant_and_finds_nobody(platform: Platform, theirs: RunRef) -> None:
    ask = Asked(platform, login(platform, "vision"))
    for method, path, body in requests_about(theirs):
        status, text = ask(method, path, body)
        if path.endswith(("/search", "/graphql")):  # these answer with what one may see
            assert status == 200
        else:
            assert status == 403, (method, path, text)
        assert "secret-name" not in text
        assert "speech" not in text, (method, path)


def test_nobody_reads_or_writes_without_a_log_in(platform: Platform, theirs: RunRef) -> None:
    name, password = login(platform, "vision")
    for wrong in (None, (name, f"{password}x"), (name, ""), ("nobody-user", password), ("admin", "password1234")):
        ask = Asked(platform, wrong)
        for method, path, body in [("GET", "/", None), *requests_about(theirs)]:
            status, text = ask(method, path, body)
            assert status == 401, (wrong and wrong[0], method, path)
            assert password not in text


def test_a_tenants_person_reads_its_own_runs_with_the_password_of_airflow_and_writes_none(
    platform: Platform, theirs: RunRef, vision: MlflowClient
) -> None:
    settings = platform.settings
    assert [one.name for one in vision.search_experiments()] == ["ffdl/vision"]
    speech = mlflow_client(settings, login(platform, "speech"))
    assert [one.name for one in speech.search_experiments()] == ["ffdl/speech"]
    assert speech.get_run(theirs.run_id).data.metrics == {"loss": 0.5}
    assert [point.value for point in speech.get_metric_history(theirs.run_id, "loss")] == [0.5]
    ask = Asked(platform, login(platform, "speech"))
    for method, path, body in requests_about(theirs):
        if method != "GET" and not path.endswith(("/search", "/graphql")):
            assert ask(method, path, body)[0] == 403, (method, path)
    assert mlflow_client(settings).get_run(theirs.run_id).info.status == "RUNNING"


def test_the_platforms_writer_is_no_administrator(platform: Platform) -> None:
    settings = platform.settings
    assert settings.mlflow_login is not None
    ask = Asked(platform, settings.mlflow_login)
    assert (
        ask("PATCH", f"{OLD}/users/update-password", {"username": "admin", "password": "a-long-pass-phrase"})[0] == 403
    )
    assert ask("POST", f"{OLD}/users/create", {"username": "stranger", "password": "a-long-pass-phrase"})[0] == 403
    assert ask("DELETE", f"{OLD}/users/delete", {"username": "vision-user"})[0] == 403


def test_a_refused_log_in_is_one_clear_error_without_the_password(platform: Platform) -> None:
    settings = platform.settings
    with pytest.raises(TrackingRefused, match="did not accept the credentials of user ffdl-writer") as refused:
        Tracker(settings.mlflow_uri, login=("ffdl-writer", "hush-hush")).find_run("vision", "job-x")
    assert "hush" not in str(refused.value)
    with pytest.raises(TrackingRefused, match="does not let user vision-user do experiments/create") as refused:
        MlflowApi(settings.mlflow_uri, login=login(platform, "vision")).post("experiments/create", {"name": "mine"})
    assert login(platform, "vision")[1] not in str(refused.value)


def test_what_somebody_changed_by_hand_is_put_right_by_the_next_start(platform: Platform) -> None:
    settings = platform.settings
    admin = ("admin", settings.endpoints["users"]["admin"])
    experiment = mlflow_client(settings).get_experiment_by_name("ffdl/speech").experiment_id
    api = MlflowApi(settings.mlflow_uri, login=admin)
    grant = {"username": "vision-user", "resource_type": "experiment", "resource_id": experiment, "permission": "EDIT"}
    api.send("POST", "users/permissions/grant", grant, version="3.0")
    assert (
        "speech"
        in Asked(platform, login(platform, "vision"))("POST", f"{OLD}/experiments/search", {"max_results": 9})[1]
    )
    changed = {"username": "admin", "password": "changed-by-hand", "current_password": admin[1]}
    api.send("PATCH", "users/update-password", changed)
    with contextlib.suppress(TrackingRefused):
        api.get("users/list", {})
    pid = platform.stack.process("mlflow").find()
    platform.stack.up()
    assert platform.stack.process("mlflow").find() == pid
    assert Asked(platform, admin)("GET", f"{OLD}/users/list")[0] == 200
    seen = Asked(platform, login(platform, "vision"))("POST", f"{OLD}/experiments/search", {"max_results": 9})[1]
    assert "speech" not in seen
    assert "vision" in seen

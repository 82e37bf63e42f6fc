"""The page beside a waiting run, in a real API server: who is let in, and what it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ffdl_ops.pipeline.services import now
from tests.support.rig import Rig, Run, eventually

pytestmark = pytest.mark.slow

WHOLE_NODE = {"gpus": 4, "gpu_type": "V100", "cpus": "0.1", "memory": "256Mi"}
LONG = "--steps 300 --seconds-per-step 0.5"
HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def tokens(platform: Any) -> dict[str, str]:
    """Each person's token for Airflow."""
    passwords = json.loads((platform.home / "secrets.json").read_text())["users"]
    found = {}
    for name in ("admin", "vision-user", "speech-user"):
        body = {"username": name, "password": passwords[name]}
        answer = httpx.post(f"{platform.settings.airflow_url}/auth/token", json=body, timeout=60)
        found[name] = answer.raise_for_status().json()["access_token"]
    return found


@pytest.fixture(scope="module")
def waiting(rig: Rig) -> Iterator[tuple[Run, Run]]:
    """Vision's job that waits for what speech's jobs hold, and one of those."""
    holders = [rig.probe("speech", LONG, **WHOLE_NODE) for _ in range(2)]
    for run in holders:
        rig.wait_job(run, {"PROCESSING"})
    # Speech holds all eight V100s; vision takes its own four back, and its second job must borrow.
    first = rig.probe("vision", LONG, **WHOLE_NODE)
    rig.wait_job(first, {"PROCESSING"}, within_s=120)
    second = rig.probe("vision", LONG, name="<b>bold</b>", **WHOLE_NODE)
    rig.wait_job(second, {"QUEUED"})
    eventually("a reason", lambda: rig.ledger.waits(second.job_id))
    still = next(run for run in holders if rig.ledger.lease(run.job_id))
    yield second, still
    for run in (second, *holders, first):
        rig.airflow.mark_run_failed(run.dag_id, run.run_id)
    for run in (second, *holders, first):
        rig.wait_job(run, {"HALTED", "COMPLETED"})


def ask(rig: Rig, run: Run, token: str | None = None, *, by: str = "Authorization", **options: Any) -> httpx.Response:
    """The page's answer.

    :param by: "Authorization" sends the token as programs do, "cookie" as the UI does.
    """
    headers = {**HTML, **({"Authorization": f"Bearer {token}"} if token and by == "Authorization" else {})}
    cookies = {"_token": token} if token and by == "cookie" else {}
    url = f"{rig.settings.airflow_url}/ffdl/jobs/{run.job_id}/wait"
    with httpx.Client(cookies=cookies, headers=headers, timeout=60) as client:
        return client.get(url, **options)


def test_nobody_enters_without_a_log_in(rig: Rig, waiting: tuple[Run, Run]) -> None:
    run, _ = waiting
    sent = ask(rig, run)
    assert sent.status_code == 303
    assert sent.headers["location"].startswith("/api/v2/auth/login?next=")
    for answer in (
        ask(rig, run, params={"format": "json"}),
        ask(rig, run, "not.a.token"),
        ask(rig, run, headers={"Accept": "*/*"}),
    ):
        assert answer.status_code == 401
        assert "vision" not in answer.text
    forged = ask(rig, run, "not.a.token", by="cookie")
    assert forged.status_code in (303, 401, 403)
    assert "vision" not in forged.text


@pytest.mark.parametrize("by", ["Authorization", "cookie"])
def test_the_tenants_person_sees_cause_and_holder(
    rig: Rig, waiting: tuple[Run, Run], tokens: dict[str, str], by: str
) -> None:
    run, holder = waiting
    text = ask(rig, run, tokens["vision-user"], by=by).text
    assert "Cause: fair share" in text
    assert '<meta http-equiv="refresh"' in text
    assert "<td>speech</td>" in text
    assert "<b>bold" not in text
    assert holder.job_id not in text, "whose job that is, is another tenant's matter"


def test_other_tenants_are_told_no_more_than_of_a_job_that_is_none(
    rig: Rig, waiting: tuple[Run, Run], tokens: dict[str, str]
) -> None:
    run, holder = waiting
    none = Run(run.dag_id, "none", "job-0123456789", "vision")
    for options in ({}, {"params": {"format": "json"}}):
        hidden = ask(rig, run, tokens["speech-user"], **options)
        assert hidden.status_code == ask(rig, none, tokens["speech-user"], **options).status_code == 404
        assert run.job_id not in hidden.text
        assert "vision" not in hidden.text
    assert ask(rig, holder, tokens["speech-user"]).status_code == 200


def test_an_administrator_sees_whose_jobs_hold_it(rig: Rig, waiting: tuple[Run, Run], tokens: dict[str, str]) -> None:
    run, holder = waiting
    told = ask(rig, run, tokens["admin"], params={"format": "json"}).json()
    assert (told["phase"], told["cause"], told["position"]) == ("waits", "fair_share", 1)
    assert holder.job_id in [one["job_id"] for one in told["holders"]]
    assert sum(one["gpus"] for one in told["holders"]) == 8


def test_the_stage_offers_the_page_while_it_waits(rig: Rig, waiting: tuple[Run, Run], tokens: dict[str, str]) -> None:
    run, _ = waiting
    path = f"/api/v2/dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances/admit/links"
    headers = {"Authorization": f"Bearer {tokens['vision-user']}"}
    links = httpx.get(f"{rig.settings.airflow_url}{path}", headers=headers, timeout=60).json()["extra_links"]
    assert links["Why it waits"] == f"/ffdl/jobs/{run.job_id}/wait"


def test_a_job_that_has_started_and_ended_shows_what_it_waited_for(rig: Rig, tokens: dict[str, str]) -> None:
    rig.ledger.close_platform("an upgrade", "ann", now())
    try:
        run = rig.probe("vision", "--steps 1", gpus=1, gpu_type="K80")
        rig.wait_job(run, {"QUEUED"})
        eventually("a reason", lambda: rig.ledger.waits(run.job_id))
        assert "an upgrade" in ask(rig, run, tokens["vision-user"]).text
    finally:
        rig.ledger.open_platform("ann", now())
    assert rig.wait_run(run) == "success"
    text = ask(rig, run, tokens["vision-user"]).text
    assert "COMPLETED" in text
    assert "refresh" not in text
    assert "granted" in text
    assert "closed:" in text

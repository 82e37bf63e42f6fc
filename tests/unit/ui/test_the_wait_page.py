"""The page itself: who is let in, and that nothing a tenant wrote does anything there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi import Request

from ffdl_ops.adapters.ledger import JobRecord, LedgerUnavailable, QueuedRecord, WaitRecord
from ffdl_ops.core.jobs.states import JobState
from ffdl_ops.core.scheduling.decisions import Holder, WaitCause
from ffdl_ops.ui.waits import build_app
from tests.support.gangs import START
from tests.support.waiting import JOB, everybody, own_tenant, queued, stored, wait

HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 7 * 7 }}\u202e\x1b[31m"
HTML = {"accept": "text/html,application/xhtml+xml"}


class FakeLedger:
    """A ledger that knows one job, or can't be reached."""

    def __init__(self, job: JobRecord | None, waits: list[WaitRecord] | None = None, *, down: bool = False) -> None:
        self._job, self._waits, self._down = job, [wait()] if waits is None else waits, down
        self.asked = 0

    def job(self, job_id: str) -> JobRecord | None:
        """The job, if it is that one."""
        self.asked += 1
        if self._down:
            raise LedgerUnavailable("secret address")
        return self._job if self._job is not None and self._job.job_id == job_id else None

    def queued(self, job_id: str) -> QueuedRecord | None:
        """Its place."""
        return queued() if self._job is not None and self._job.state is JobState.QUEUED else None

    def waits(self, job_id: str) -> list[WaitRecord]:
        """Its waits."""
        return self._waits

    def lease(self, job_id: str) -> None:
        """Nothing."""


class FakeHost:
    """A server whose only visitor may read what the test says."""

    def __init__(self, ledger: FakeLedger, may_read: Callable[[str], bool] | None) -> None:
        self._ledger, self._may_read = ledger, may_read

    def ledger(self) -> Any:
        """The fake ledger."""
        return self._ledger

    async def reader(self, request: Request) -> Callable[[str], bool] | None:
        """The visitor."""
        return self._may_read

    def login_page(self, request: Request) -> str:
        """Some log-in."""
        return f"/login?next={request.url.path}"

    def run_page(self, request: Request, dag_id: str, run_id: str) -> str:
        """Some page."""
        return "/dags/x"


def ask(
    ledger: FakeLedger, may_read: Callable[[str], bool] | None = own_tenant, job: str = JOB, **options: Any
) -> Any:
    """The answer to one request."""
    transport = httpx.ASGITransport(build_app(FakeHost(ledger, may_read)))

    async def once() -> Any:
        async with httpx.AsyncClient(transport=transport, base_url="http://airflow") as client:
            return await client.get(f"/jobs/{job}/wait", **{"headers": HTML, **options})

    return asyncio.run(once())


def test_a_browser_without_a_log_in_is_sent_there_and_back():
    ledger = FakeLedger(stored())
    answer = ask(ledger, None)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/login?next=/jobs/{JOB}/wait")
    assert ledger.asked == 0, "nothing is looked up for somebody unknown"


@pytest.mark.parametrize(
    "options",
    [
        {"params": {"format": "json"}},
        {"headers": {"accept": "*/*"}},
        {"headers": {**HTML, "authorization": "Bearer of-somebody-else"}},
    ],
)
def test_a_program_without_a_log_in_gets_401(options: dict[str, Any]):
    answer = ask(FakeLedger(stored()), None, **options)
    assert answer.status_code == 401
    assert JOB not in answer.text


def test_somebody_elses_job_and_none_at_all_are_told_alike():
    def others(dag_id: str) -> bool:
        return dag_id == "train__speech"

    for params in ({}, {"format": "json"}):
        hidden = ask(FakeLedger(stored(name="secret")), others, params=params)
        absent = ask(FakeLedger(None), others, params=params)
        assert hidden.status_code == absent.status_code == 404
        assert without_nonce(hidden.text) == without_nonce(absent.text)


@pytest.mark.parametrize("job", ["%3Cscript%3E", "job-1'", "..%2Fx", "job-00000000c0%00"])
def test_an_id_that_is_none_is_no_job(job: str):
    answer = ask(FakeLedger(stored()), job=job)
    assert answer.status_code == 404
    assert "<script" not in answer.text


def test_a_waiting_job_shows_cause_holders_place_and_looks_again():
    text = ask(FakeLedger(stored())).text
    assert '<meta http-equiv="refresh" content="5">' in text
    assert "Cause: capacity" in text
    assert "2 in the queue of tenant vision" in text
    assert "Room for 1 learner" in text
    assert "2026-01-01 14:00:00Z" in text
    assert "not yours to see" in text
    assert "sally" not in text
    assert "job-00000000b0</span> (ben)" in text


def test_a_job_that_runs_is_not_looked_at_again():
    answer = ask(FakeLedger(stored(JobState.PROCESSING), [wait(until=START + timedelta(minutes=2))]))
    assert "refresh" not in answer.text
    assert "It does not wait" in answer.text
    assert "capacity: 2 min 00 s (100 %)" in answer.text, "the bar is text too"


def test_what_tenants_wrote_is_text():
    holder = Holder("job-00000000b0", "vision", 4, HOSTILE)
    ended = wait(until=START + timedelta(seconds=9))
    text = ask(FakeLedger(stored(name=HOSTILE, user=HOSTILE), [ended, wait(holders=[holder])]), everybody).text
    assert "<script" not in text
    assert "<img" not in text
    assert "49" not in re.findall(r"alert\(2\)[^<]*", text)[0], "and no template"
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_nothing_but_the_pages_own_style_would_be_loaded_or_run():
    answer = ask(FakeLedger(stored()))
    policy = answer.headers["content-security-policy"]
    nonce = re.search(r"style-src 'nonce-([\w-]+)'", policy)
    assert nonce
    assert f'<style nonce="{nonce[1]}">' in answer.text
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert " style=" not in answer.text, "which the policy would drop"
    assert answer.headers["cache-control"] == "no-store"
    assert nonce[1] not in ask(FakeLedger(stored())).text


def test_the_same_as_json_has_every_interval():
    waits = [wait(cause=WaitCause.QUOTA, until=START + timedelta(seconds=9)) for _ in range(70)] + [wait()]
    answer = ask(FakeLedger(stored(), waits), params={"format": "json"}).json()
    assert (answer["job_id"], answer["state"], answer["cause"], answer["position"]) == (JOB, "QUEUED", "capacity", 2)
    assert answer["holders"][0] == {
        "tenant": "speech", "gpus": 4, "until": "2026-01-01T14:00:00Z", "overdue": True, "job_id": None, "user": None,
    }  # fmt: skip
    assert len(answer["intervals"]) == 71
    assert "21 earlier ones" in ask(FakeLedger(stored(), waits)).text


def test_without_the_ledger_it_says_so_without_details_and_looks_again():
    answer = ask(FakeLedger(stored(), down=True))
    assert answer.status_code == 503
    assert "refresh" in answer.text
    assert "secret address" not in answer.text


def without_nonce(text: str) -> str:
    """A page without what differs each time."""
    return re.sub(r'nonce="[\w-]+"', "", text)

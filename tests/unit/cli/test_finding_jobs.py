"""What a JOB argument may be."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.fixture
def jobs(cli: Any, job: Any) -> None:
    cli.ledger.add(
        job("job-abc1000000", run_id="manual__2026"),
        job("job-abc2000000", run_id="cli-1"),
        job("job-cafe000000", run_id="abc"),
    )


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("job-abc1000000", "job-abc1000000"),
        ("job-abc1", "job-abc1000000"),
        ("abc2", "job-abc2000000"),
        ("job-c", "job-cafe000000"),
        (" job-abc1 ", "job-abc1000000"),
        ("manual__2026", "job-abc1000000"),
        ("abc", "job-cafe000000"),
    ],
)
def test_an_id_a_beginning_of_it_or_the_run_names_a_job(cli: Any, text: str, found: str) -> None:
    assert json.loads(cli.ok("show", text, "--json").stdout)["job_id"] == found


@pytest.mark.usefixtures("jobs")
def test_a_beginning_of_several_is_refused_and_they_are_named(cli: Any) -> None:
    said = cli.refused(2, "show", "job-abc")
    assert "job-abc1000000" in said
    assert "job-abc2000000" in said


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize("text", ["job-", "", "job-zzz", "JOB-ABC1", "%", "_", "job-abc1000000x"])
def test_what_names_no_job_is_refused(cli: Any, text: str) -> None:
    assert "There is no job" in cli.refused(2, "show", text)

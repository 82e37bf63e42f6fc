"""What the ledger says is staged is staged: a data set that has made way is fetched again."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from ffdl_ops.core.jobs.states import TERMINAL, JobState
from ffdl_ops.core.platform import PlatformConfig
from ffdl_ops.pipeline import steps
from ffdl_ops.pipeline.helpers import HelperEnd
from ffdl_ops.pipeline.staging import keep_spec
from ffdl_ops.pod.staging.spec import KEY_SHOWN
from tests.support.waiting import stored

OLD, NEW, OTHER = "a" * 64, "b" * 64, "c" * 64


class Ledger:
    """Jobs of one tenant by id, the newest last."""

    def __init__(self, *jobs: Any) -> None:
        self.rows = {job.job_id: job for job in jobs}

    def jobs(self, tenant: str, states: Any = None, limit: int = 0) -> list[Any]:
        return [job for job in self.rows.values() if states is None or job.state in states]

    def set_facts(self, job_id: str, **facts: Any) -> None:
        self.rows[job_id] = replace(self.rows[job_id], **facts)


def job(number: int, key: str, state: JobState = JobState.COMPLETED, *, staged: bool = True) -> Any:
    return replace(stored(state), job_id=f"job-{number}", dataset_key=key, dataset={"bucket": "b", "staged": staged})


def services(*jobs: Any) -> Any:
    cluster = SimpleNamespace(delete_pod=lambda *given, **more: True)
    return SimpleNamespace(
        ledger=Ledger(*jobs), cluster=cluster, platform=PlatformConfig.load({"cache": {"max_gib": 2}})
    )


def test_a_data_set_that_made_way_is_fetched_again_and_the_others_are_not() -> None:
    fetching = job(3, NEW, JobState.DOWNLOADING, staged=False)
    svc = services(job(1, OLD), job(2, OTHER), fetching)
    report = {"files": 1, "bytes": 9, "evicted": [OLD[:KEY_SHOWN]], "evicted_bytes": 7}
    told = steps.FETCH.finish(svc, fetching, HelperEnd("p", 0, report, ""))
    assert (told["evicted"], told["evicted_bytes"]) == (1, 7)
    assert [svc.ledger.rows[name].dataset["staged"] for name in ("job-1", "job-2", "job-3")] == [False, True, True]
    assert steps.FETCH.needed(svc, job(4, OLD, JobState.PENDING, staged=False))
    svc.ledger.rows["job-5"] = job(5, OTHER, JobState.PENDING, staged=False)
    assert not steps.FETCH.needed(svc, svc.ledger.rows["job-5"])


def test_the_helper_is_told_what_living_jobs_read_and_the_limits() -> None:
    living = [job(number, f"{number:x}" * 64, state) for number, state in enumerate(set(JobState) - TERMINAL)]
    keep = keep_spec(services(*living, job(100, OLD), replace(job(101, OLD), dataset_key=None)), "vision")
    assert keep["in_use"] == sorted(one.dataset_key[:KEY_SHOWN] for one in living)
    assert (keep["max_bytes"], keep["max_age_s"]) == (2 * 2**30, 30 * 86_400)
    json.dumps(keep)

"""Threads and processes that write the same things at the same moment, on a real server."""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from ffdl_ops.adapters.ledger import LeaseLost, Ledger, Refused
from ffdl_ops.core.jobs.states import JobState, TransitionRefused
from tests.support.gangs import FIFO, Limits, gang, later, limits, node

THREADS = 8
NODES = [node("n1"), node("n2")]
TENANTS = limits(Limits("a", {"V100": 8}), Limits("b", {"V100": 3}))


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Start all calls at the same moment; their results, errors raised."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        barrier.wait(10)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(30) for future in [pool.submit(run, call) for call in calls]]


def in_processes(*works: Callable[[], None]) -> None:
    """Run each in a forked process; fails with the first that failed."""
    context = multiprocessing.get_context("fork")
    errors = context.SimpleQueue()

    def body(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:
            errors.put(traceback.format_exc())
            os._exit(1)
        os._exit(0)

    processes = [context.Process(target=body, args=(work,)) for work in works]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert errors.empty(), errors.get()
    assert [process.exitcode for process in processes] == [0] * len(works)


def over_capacity(ledger: Ledger) -> list[str]:
    """Nodes that are promised to more than they hold, by the history of all leases."""
    problems = []
    live = ledger.live_leases()
    used = Counter[str]()
    for lease in live:
        for place in lease.placements:
            used[place.node] += lease.gpus
    problems += [f"{name}: {used[name]}" for name in used if used[name] > 4]
    held = sum(lease.gpus_total for lease in live if lease.tenant == "b")
    return problems + ([f"b holds {held}"] if held > 3 else [])


def test_a_job_is_created_once(ledger, new_job):
    records = at_once(*[lambda: new_job()] * THREADS)
    assert len({record.created_at for record in records}) == 1
    assert len(ledger.transitions("job-1")) == 1


def test_one_of_many_resumes_counts(ledger, new_job):
    new_job()
    ledger.transition("job-1", JobState.FAILED, now=later(1))
    at_once(*[lambda: ledger.resume_job("job-1", later(2))] * THREADS)
    assert ledger.job("job-1").resume_count == 1
    assert [one.to_state for one in ledger.transitions("job-1")].count(JobState.RESUMED) == 1


def test_one_outcome_one_end_of_an_attempt_one_release_wins(ledger, new_job):
    new_job()
    ledger.enqueue(gang("job-1", 2, 1), later(0))
    ledger.admission_pass(NODES, TENANTS, FIFO, later(1))
    epoch = ledger.lease("job-1").epoch
    attempts = at_once(*[lambda: ledger.begin_attempt("job-1", epoch, 2, 20_000, None, later(2))] * THREADS)
    assert {attempt.number for attempt in attempts} == {1}
    for write in (
        lambda n: ledger.end_attempt("job-1", 1, f"end-{n}", None, later(3)),
        lambda n: ledger.record_outcome("job-1", f"out-{n}", None, later(3)),
        lambda n: ledger.release_lease("job-1", epoch, f"free-{n}", later(3)),
        lambda n: ledger.stage_started("job-1", "learners", later(3), 1),
        lambda n: ledger.stage_ended("job-1", "learners", later(4), "success"),
    ):
        won = at_once(*[lambda n=n, write=write: write(n) for n in range(THREADS)])
        assert sum(won) == 1


def test_one_of_many_followers_gets_the_right(ledger, new_job):
    new_job()
    epochs = at_once(*[lambda n=n: ledger.claim_follower("job-1", f"me-{n}", later(0), 15) for n in range(THREADS)])
    assert sorted(epoch for epoch in epochs if epoch is not None) == [1]


def test_states_told_by_many_at_once_only_go_forward(ledger, new_job):
    new_job()
    states = [JobState.PENDING, JobState.DOWNLOADING, JobState.QUEUED, JobState.DEPLOYING, JobState.PROCESSING]

    def tell(state: JobState) -> None:
        with suppress(TransitionRefused):
            ledger.transition("job-1", state, now=later(1))

    at_once(*[lambda state=state: tell(state) for state in [*states, JobState.STORING, *states]])
    told = [one.to_state for one in ledger.transitions("job-1")]
    assert ledger.job("job-1").state == JobState.STORING == told[-1]
    assert [one.from_state for one in ledger.transitions("job-1")][1:] == told[:-1], "each starts where the last ended"


def test_passes_that_run_at_once_promise_no_gpu_twice(ledger, new_job):
    """Pitfall 17: however many triggerers tick at once."""
    for number in range(12):
        tenant = "ab"[number % 2]
        new_job(f"job-{number}", tenant=tenant)
        ledger.enqueue(gang(f"job-{number}", 3, 1, tenant=tenant, at=number), later(0))
    decisions = at_once(*[lambda: ledger.admission_pass(NODES, TENANTS, FIFO, later(1))] * THREADS)
    assert over_capacity(ledger) == []
    # Nine of a's GPUs can't be on two nodes of four: two gangs of a and one of b leave two free.
    assert sorted(lease.tenant for lease in ledger.live_leases()) in (["a", "a"], ["a", "b"])
    assert sum(type(one).__name__ == "Admit" for some in decisions for one in some) == len(ledger.live_leases())


@pytest.mark.parametrize("how", ["halt", "end", "dequeue"])
def test_leaving_the_queue_while_a_pass_runs_leaves_no_open_wait(ledger, new_job, how):
    for number in range(10):
        name = f"job-{number}"
        new_job(name)
        ledger.enqueue(gang(name, 1, 1), later(0))
        leave = {
            "halt": lambda name=name: ledger.request_halt(name, "bob", later(1)),
            "end": lambda name=name: ledger.transition(name, JobState.HALTED, now=later(1)),
            "dequeue": lambda name=name: ledger.dequeue(name, later(1), "gone"),
        }[how]
        at_once(*[lambda: ledger.admission_pass([], TENANTS, FIFO, later(1))] * 4, leave)
        assert ledger.queue() == []
        assert all(wait.ended_at is not None for wait in ledger.waits(name))
    assert ledger.live_leases() == []


def test_queueing_and_granting_at_the_same_moment_never_leave_a_holder_in_the_queue(ledger, new_job):
    for number in range(10):
        name = f"job-{number}"
        new_job(name)
        ledger.enqueue(gang(name, 1, 1), later(0))
        at_once(
            *[lambda: ledger.admission_pass(NODES, TENANTS, FIFO, later(1))] * 2,
            *[lambda name=name: ledger.enqueue(gang(name, 1, 1), later(1))] * 4,
        )
        assert [one.request.job_id for one in ledger.queue()] == []
        ledger.release_lease(name, ledger.lease(name).epoch, "done", later(2))


def test_processes_that_do_everything_at_once_break_nothing(ledger, new_job):
    """Forked processes (as Airflow's tasks are) share the parent's ledger object and live through random jobs."""
    names = [f"job-{number}" for number in range(10)]
    for number, name in enumerate(names):
        new_job(name, tenant="ab"[number % 2])

    def work(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(120):
            one_move(ledger, draw, names)
            assert over_capacity(ledger) == []

    in_processes(*[lambda seed=seed: work(seed) for seed in range(4)])
    assert over_capacity(ledger) == []
    queued = {entry.request.job_id for entry in ledger.queue()}
    holding = {lease.job_id for lease in ledger.live_leases()}
    assert not queued & holding
    assert sum(len(ledger.leases(name)) for name in names) > 10, "the test would show nothing"
    for name in names:
        open_waits = [wait for wait in ledger.waits(name) if wait.ended_at is None]
        assert len(open_waits) <= (name in queued)
        numbers = [attempt.number for attempt in ledger.attempts(name)]
        assert numbers == list(range(1, len(numbers) + 1))


def one_move(ledger: Ledger, draw: random.Random, names: Sequence[str]) -> None:
    """One random move of one job by somebody."""
    name = draw.choice(names)
    tenant = "ab"[int(name.removeprefix("job-")) % 2]
    lease = ledger.lease(name)
    with suppress(TransitionRefused, Refused, LeaseLost):
        match draw.randrange(6):
            case 0:
                ledger.enqueue(gang(name, draw.randint(1, 3), 1, tenant=tenant), later(draw.random()))
            case 1:
                ledger.admission_pass(NODES, TENANTS, FIFO, later(draw.random()))
            case 2 if lease:
                ledger.release_lease(name, lease.epoch, "random", later(2))
            case 3 if lease:
                attempt = ledger.open_attempt(name)
                if attempt is not None:
                    ledger.end_attempt(name, attempt.number, "stopped", None, later(2))
                ledger.begin_attempt(name, lease.epoch, 1, 20_000, None, later(2))
            case 4:
                ledger.transition(
                    name, draw.choice((JobState.QUEUED, JobState.DEPLOYING, JobState.HALTED)), now=later(2)
                )
            case 5:
                ledger.request_halt(name, "bob", later(2))
                ledger.transition(name, JobState.HALTED, now=later(2))
                ledger.resume_job(name, later(2))

"""The first cause of a gang's end is found among its consequences, and says what to do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffdl_ops.core.failures.classes import FailureClass
from ffdl_ops.core.failures.classify import Failure, classify
from ffdl_ops.core.failures.evidence import LearnerEvidence

RUNNING = LearnerEvidence(
    rank=0, pod="job-a1-l0", node="n1", phase="Running", pod_reason=None, pod_message=None, container_reason=None,
    exit_code=None, signal=None, oom=False, exit_report=None, deleted=False, memory_limit="2Gi",
)  # fmt: skip


def learner(rank: int = 0, **facts: Any) -> LearnerEvidence:
    return replace(RUNNING, rank=rank, pod=f"job-a1-l{rank}", **facts)


def exited(rank: int, code: int, words: str = "", **facts: Any) -> LearnerEvidence:
    report = {"exit_code": code, "last_traceback": words, **facts.pop("report", {})}
    return learner(rank, phase="Failed", container_reason="Error", exit_code=code, exit_report=report, **facts)


def stopped(rank: int) -> LearnerEvidence:
    return exited(rank, 143, report={"terminated_by_platform": True})


BUG = "Traceback (most recent call last):\n  File 'train.py'\nKeyError: 'lable'"
GLOO = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:20000"
NCCL = "torch.distributed.DistBackendError: NCCL error in: ncclRemoteError: remote process exited"
TENSORFLOW = "tensorflow.python.framework.errors_impl.UnavailableError: Socket closed"


def test_a_programs_error_is_the_users_and_shows_its_last_line() -> None:
    failure = classify([exited(0, 1, BUG)])
    assert (failure.cls, failure.rank) == (FailureClass.USER_ERROR, 0)
    assert "KeyError: 'lable'" in failure.summary
    assert "exit code 1" in failure.summary
    assert "n1" in failure.summary


def test_killed_for_memory_is_oom_with_limit_and_code() -> None:
    """Pitfall 20: OOMKilled was "returned a failure"; class, container's limit and exit code are named."""
    failure = classify([exited(0, 137, oom=True)])
    assert failure.cls is FailureClass.OOM
    assert "2Gi" in failure.summary
    assert "137" in failure.summary
    assert "memory" in failure.advice


def test_killed_for_memory_is_oom_though_exit_code_and_phase_say_success() -> None:
    """Pitfall 21: OOMKilled with exit code 0 and phase Succeeded."""
    ended = learner(0, phase="Succeeded", container_reason="OOMKilled", exit_code=0, oom=True)
    assert classify([ended, learner(1)]).cls is FailureClass.OOM


@pytest.mark.parametrize(
    ("reason", "cls"),
    [
        ("OutOfmemory", FailureClass.STARTUP),
        ("OutOfnvidia.com/gpu", FailureClass.STARTUP),
        ("UnexpectedAdmissionError", FailureClass.STARTUP),
        ("NodeAffinity", FailureClass.STARTUP),
        ("Evicted", FailureClass.EVICTED),
        ("EvictionByEvictionAPI", FailureClass.EVICTED),
        ("Preempting", FailureClass.PREEMPTED),
        ("PreemptionByScheduler", FailureClass.PREEMPTED),
        ("NodeLost", FailureClass.NODE_LOST),
        ("NodeShutdown", FailureClass.NODE_LOST),
        ("DeletionByTaintManager", FailureClass.NODE_LOST),
        ("SomethingNew", FailureClass.UNKNOWN),
    ],
)
def test_a_pod_without_container_statuses_is_classed_by_its_reason(reason: str, cls: FailureClass) -> None:
    """Pitfall 9: phase Failed and no container statuses."""
    failure = classify([learner(0, phase="Failed", pod_reason=reason, pod_message="what the node said")])
    assert failure.cls is cls
    assert reason in failure.summary
    assert "what the node said" in failure.summary


@pytest.mark.parametrize("words", [GLOO, NCCL, TENSORFLOW, "ConnectionResetError: Connection reset by peer"])
@pytest.mark.parametrize(
    ("cause", "cls"),
    [
        (exited(1, 1, BUG), FailureClass.USER_ERROR),
        (exited(1, 139), FailureClass.USER_ERROR),
        (exited(1, 137, oom=True), FailureClass.OOM),
        (exited(1, 137), FailureClass.UNKNOWN),
        (learner(1, phase="Running", pod_reason="NodeLost"), FailureClass.NODE_LOST),
        (learner(1, phase="Unknown", deleted=True), FailureClass.EVICTED),
        (learner(1, phase="Pending", container_reason="ImagePullBackOff"), FailureClass.IMAGE),
    ],
)
def test_a_lost_peer_is_a_consequence_of_whatever_else_failed(
    cause: LearnerEvidence, cls: FailureClass, words: str
) -> None:
    failure = classify([exited(0, 1, words), cause, exited(2, 1, words), stopped(3)])
    assert (failure.cls, failure.rank) == (cls, 1)
    assert failure.evidence[0]["rank"] == 1


def test_the_cluster_outranks_an_error_that_its_loss_may_have_caused() -> None:
    strange = exited(0, 1, "RuntimeError: something that nobody has seen before")
    for reason in ("NodeLost", "Evicted", "Preempting"):
        assert classify([strange, learner(1, pod_reason=reason)]).rank == 1
    assert classify([strange, learner(1, phase="Unknown", deleted=True)]).cls is FailureClass.EVICTED


def test_if_every_learner_only_lost_its_peer_the_cause_is_unknown() -> None:
    failure = classify([exited(0, 1, GLOO), exited(1, 1, GLOO)])
    assert failure.cls is FailureClass.UNKNOWN
    assert "lost its connection" in failure.summary
    assert "and 1 more" in failure.summary


def test_learners_that_this_platform_stopped_are_no_cause() -> None:
    assert classify([stopped(0), exited(1, 1, BUG), stopped(2)]).rank == 1


def test_a_stop_that_nothing_in_the_gang_explains_came_from_outside() -> None:
    assert classify([stopped(0), learner(1)]).cls is FailureClass.EVICTED


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (126, "can't be executed"),
        (127, "not found"),
        (139, "SIGSEGV"),
        (134, "SIGABRT"),
        (130, "SIGINT"),
        (42, "exit code 42"),
    ],
)
def test_an_exit_code_is_said_in_words(code: int, words: str) -> None:
    failure = classify([exited(0, code)])
    assert failure.cls is FailureClass.USER_ERROR
    assert words in failure.summary


def test_sigkill_without_evidence_is_unknown_and_near_the_limit_it_is_memory() -> None:
    assert classify([exited(0, 137, report={"peak_rss_bytes": 2**29})]).cls is FailureClass.UNKNOWN
    assert classify([exited(0, 137, report={"peak_rss_bytes": 2 * 2**30 - 1000})]).cls is FailureClass.OOM
    assert (
        classify([exited(0, 137, memory_limit="nonsense", report={"peak_rss_bytes": 2**40})]).cls
        is FailureClass.UNKNOWN
    )


def test_the_launchers_word_for_exhausted_memory_needs_a_second_sign() -> None:
    assert classify([exited(0, 137, report={"oom": True})]).cls is FailureClass.OOM
    assert (
        classify([exited(0, 1, "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.")]).cls
        is FailureClass.OOM
    )
    assert classify([exited(0, 3, report={"oom": True})]).cls is FailureClass.USER_ERROR
    assert classify([exited(0, 1, BUG, report={"oom": True})]).cls is FailureClass.USER_ERROR


def test_an_error_with_its_traceback_explains_more_than_a_crash_without() -> None:
    assert classify([exited(0, 134), exited(1, 1, BUG)]).rank == 1


def test_learners_that_did_not_meet_are_a_start_up_failure_unless_another_shows_why() -> None:
    reason = "rendezvous: ranks 1 did not come within 120 s"
    waited = exited(0, 75, report={"reason": reason})
    failure = classify([waited, learner(1)])
    assert failure.cls is FailureClass.STARTUP
    assert reason in failure.summary
    unplaced = learner(1, phase="Pending", container_reason="ImagePullBackOff")
    assert classify([waited, unplaced]).cls is FailureClass.IMAGE
    stopped_there = exited(0, 143, report={"reason": "rendezvous: stopped while waiting for the others"})
    assert classify([stopped_there, exited(1, 1, BUG)]).rank == 1


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "batch size"),
        ("MemoryError", "`memory`"),
        ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8 GiB", "`memory`"),
    ],
)
def test_a_program_that_runs_out_of_memory_by_itself_is_oom(words: str, advice: str) -> None:
    failure = classify([exited(0, 1, f"Traceback:\n  x\n{words}")])
    assert failure.cls is FailureClass.OOM
    assert advice in failure.advice


@pytest.mark.parametrize(
    ("code", "cls"),
    [(64, FailureClass.PLATFORM), (65, FailureClass.USER_ERROR), (66, FailureClass.USER_ERROR), (69, FailureClass.PLATFORM),
     (74, FailureClass.PLATFORM), (137, FailureClass.PLATFORM)],
)  # fmt: skip
def test_a_staging_helper_that_ended_the_pod_is_classed_by_its_code(code: int, cls: FailureClass) -> None:
    ended = learner(
        0, phase="Failed", container_reason="Init:prepare", exit_code=code, pod_message="bucket b: no such object"
    )
    failure = classify([ended])
    assert failure.cls is cls
    assert "prepare" in failure.summary
    assert "no such object" in failure.summary


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"])
def test_an_image_that_cannot_be_had(reason: str) -> None:
    waiting = learner(0, phase="Pending", container_reason=reason, pod_message=f"{reason}: no/such:image")
    failure = classify([waiting, learner(1)])
    assert failure.cls is FailureClass.IMAGE
    assert failure.summary.endswith(f"{reason}: no/such:image")


def test_a_pod_that_no_node_takes_is_a_start_up_failure_with_the_schedulers_words() -> None:
    """Pitfall 16: bounded, with the scheduler's own message."""
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    failure = classify([learner(0, phase="Pending", container_reason="Unschedulable", pod_message=words)])
    assert failure.cls is FailureClass.STARTUP
    assert words in failure.summary


def test_a_pod_that_was_too_slow_is_a_start_up_failure() -> None:
    assert classify([learner(0, phase="Pending"), learner(1)]).cls is FailureClass.STARTUP


def test_a_passed_deadline_is_final() -> None:
    failure = classify(
        [learner(0, pod_reason="DeadlineExceeded", pod_message="the job's deadline of 60 s has passed"), exited(1, 1)]
    )
    assert (failure.cls, failure.final) == (FailureClass.USER_ERROR, True)
    assert "deadline of 60 s" in failure.summary
    assert "deadline" in failure.advice


@pytest.mark.parametrize("gang", [[], [learner(0), learner(1)], [learner(0, phase="Succeeded", exit_code=0)]])
def test_without_any_bad_end_it_is_unknown_and_says_so(gang: list[LearnerEvidence]) -> None:
    failure = classify(gang)
    assert (failure.cls, failure.rank) == (FailureClass.UNKNOWN, None)
    assert "No learner shows" in failure.summary


def test_a_program_that_ended_well_in_a_pod_that_failed_is_no_user_error() -> None:
    assert classify([learner(0, phase="Failed", exit_code=0)]).cls is FailureClass.PLATFORM


texts = (
    st.none()
    | st.text(max_size=60)
    | st.sampled_from(["Evicted", "OOMKilled", "Init:prepare", "Unschedulable", "Error"])
)
learners = st.builds(
    LearnerEvidence,
    rank=st.integers(0, 9),
    pod=st.just("p"),
    node=texts,
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    pod_reason=texts,
    pod_message=texts,
    container_reason=texts,
    exit_code=st.none() | st.integers(-1, 300),
    signal=st.none() | st.integers(0, 70),
    oom=st.booleans(),
    exit_report=st.none()
    | st.fixed_dictionaries(
        {}, optional={"last_traceback": texts, "peak_rss_bytes": texts | st.integers(), "oom": st.booleans()}
    ),
    deleted=st.booleans(),
    memory_limit=texts,
)


@given(st.lists(learners, max_size=5))
def test_any_evidence_gives_a_failure_with_advice_fit_for_the_ledger(gang: list[LearnerEvidence]) -> None:
    failure = classify(gang)
    assert isinstance(failure, Failure)
    assert failure.summary and failure.advice
    assert len(failure.summary) <= 500
    assert len(failure.evidence) == len(gang)
    json.dumps(failure.evidence)


@given(st.permutations([exited(0, 1, GLOO), exited(1, 1, BUG), stopped(2), learner(3)]))
def test_the_order_in_which_pods_are_listed_does_not_matter(gang: list[LearnerEvidence]) -> None:
    assert classify(gang) == classify(sorted(gang, key=lambda one: one.rank))

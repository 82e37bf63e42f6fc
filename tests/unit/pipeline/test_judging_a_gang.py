"""How a gang's pods are read as one state."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from ffdl_ops.adapters.cluster.observe import PodView
from ffdl_ops.pipeline.judge import Expected, GangState, judge

T0 = datetime(2026, 1, 1, tzinfo=UTC)
TIMEOUTS = SimpleNamespace(startup_seconds=300, image_seconds=30, unschedulable_seconds=120)


def pod(rank: int, **changes: object) -> PodView:
    """A learner that runs."""
    view = PodView(
        name=f"job-a1-l{rank}", namespace="ffdl-t", uid=f"uid-{rank}", rank=rank, attempt=1, phase="Running",
        node="n", created=T0, main="learner", running=True, started=T0, exit_code=None, signal=None,
        container_reason=None, finished=None, message=None, oom=False, pod_reason=None, pod_message=None,
        waiting=None, waiting_is_image=False, unschedulable=None, failed_init=None, terminating=False,
        memory_limit="1Gi",
    )  # fmt: skip
    return replace(view, **changes)  # type: ignore[arg-type]


def pending(rank: int, **changes: object) -> PodView:
    return pod(rank, phase="Pending", running=False, started=None, **changes)


def exited(rank: int, code: int, **changes: object) -> PodView:
    return pod(rank, running=False, exit_code=code, **changes)


def verdict(*views: PodView, after_s: float = 1, learners: int = 2):  # type: ignore[no-untyped-def]
    expected = {rank: Expected(f"job-a1-l{rank}", f"uid-{rank}", "n") for rank in range(learners)}
    return judge(views, expected, started_at=T0, now=T0 + timedelta(seconds=after_s), timeouts=TIMEOUTS)  # type: ignore[arg-type]


def test_a_gang_runs_only_when_all_its_learners_run() -> None:
    """Pitfall 30: a group counted as ready though members are pending."""
    assert verdict(pod(0), pending(1)).state is GangState.STARTING
    assert verdict(pod(0), pod(1)).state is GangState.RUNNING


def test_a_gang_succeeds_only_when_every_learner_exited_0() -> None:
    assert verdict(exited(0, 0), pod(1)).state is GangState.RUNNING
    assert verdict(exited(0, 0), exited(1, 0)).state is GangState.SUCCEEDED


def test_one_learner_that_fails_ends_the_gang() -> None:
    """Pitfall 34: one worker exits 1 and the others run on."""
    assert verdict(pod(0), exited(1, 1)).state is GangState.ENDED


def test_killed_for_memory_is_no_success_whatever_the_exit_code_says() -> None:
    """Pitfall 21: OOMKilled with exit code 0 and phase Succeeded."""
    ended = verdict(exited(0, 0), exited(1, 0, oom=True, phase="Succeeded"))
    assert ended.state is GangState.ENDED
    assert [item.oom for item in ended.evidence if item.rank == 1] == [True]


def test_a_pod_that_failed_before_any_container_ran_ends_the_gang_at_once() -> None:
    """Pitfall 9: phase Failed without container statuses."""
    refused = pending(1, pod_reason="OutOfmemory", pod_message="Node didn't have enough resource")
    ended = verdict(pod(0), replace(refused, phase="Failed"))
    assert ended.state is GangState.ENDED
    assert ended.evidence[1].pod_reason == "OutOfmemory"


def test_a_vanished_pod_ends_the_gang() -> None:
    """Pitfall 11: the pod is gone when somebody looks."""
    ended = verdict(pod(0))
    assert ended.state is GangState.ENDED
    assert [(item.rank, item.deleted) for item in ended.evidence] == [(0, False), (1, True)]


def test_another_pod_of_the_same_name_is_not_this_attempts() -> None:
    """Pitfall 2: pods are matched by UID, never by name alone."""
    ended = verdict(pod(0), pod(1, uid="somebody-else"))
    assert ended.state is GangState.ENDED


def test_a_running_gang_is_never_judged_by_the_clock() -> None:
    """Pitfall 12: a watcher that was away past the start-up limit looks before it judges."""
    assert verdict(pod(0), pod(1), after_s=10_000).state is GangState.RUNNING


def test_start_up_is_bounded() -> None:
    assert verdict(pod(0), pending(1), after_s=299).state is GangState.STARTING
    assert verdict(pod(0), pending(1), after_s=301).state is GangState.ENDED


def test_an_unschedulable_pod_is_bounded_and_keeps_the_schedulers_words() -> None:
    """Pitfall 16: an unschedulable pod hangs for ever."""
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    stuck = pending(1, unschedulable=words, node=None)
    assert verdict(pod(0), stuck, after_s=119).state is GangState.STARTING
    ended = verdict(pod(0), stuck, after_s=121)
    assert ended.state is GangState.ENDED
    assert words in ended.detail


def test_an_image_that_cannot_be_pulled_is_given_up_before_the_start_up_limit() -> None:
    stuck = pending(1, waiting="ImagePullBackOff: no/such:image", waiting_is_image=True)
    assert verdict(pod(0), stuck, after_s=29).state is GangState.STARTING
    assert verdict(pod(0), stuck, after_s=31).state is GangState.ENDED


@pytest.mark.parametrize("reason", ["NodeLost", "NodeShutdown"])
def test_a_pod_whose_node_is_gone_ends_the_gang_while_its_phase_still_says_running(reason: str) -> None:
    assert verdict(pod(0), pod(1, pod_reason=reason)).state is GangState.ENDED

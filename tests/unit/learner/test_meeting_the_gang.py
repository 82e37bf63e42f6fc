"""How a gang's learners find each other by files on the volume that they share."""

from __future__ import annotations

import json
import socket
import time

import pytest

from ffdl_ops.pod.learner.environment import Peer
from ffdl_ops.pod.learner.rendezvous import free_port
from tests.unit.learner.pods import Job, eventually
from tests.unit.learner.pods import free_port as any_port

SHOW = 'echo "$RANK/$WORLD_SIZE $MASTER_ADDR:$MASTER_PORT"; echo "$TF_CONFIG"'


def test_all_learners_are_told_the_same_gang(job: Job) -> None:
    port = str(any_port())
    gang = [job.start(SHOW, rank=rank, learners=3, FFDL_BASE_PORT=port) for rank in (2, 0, 1)]
    assert [learner.wait() for learner in gang] == [0, 0, 0]
    published = [json.loads((job.root / f"state/rendezvous/attempt-1/rank-{rank}").read_text()) for rank in range(3)]
    workers = [f"{peer['ip']}:{peer['port']}" for peer in published]
    assert [peer["ip"] for peer in published] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    assert len(set(workers)) == 3
    for learner in gang:
        place, config = learner.lines
        assert place == f"{learner.rank}/3 127.0.0.1:{published[0]['port']}"
        task = {"type": "worker", "index": learner.rank}
        assert json.loads(config) == {"cluster": {"worker": workers}, "task": task}
        assert learner.events("rendezvous")[0]["addresses"] == workers


def test_no_program_starts_before_every_learner_is_there(job: Job) -> None:
    first = job.start("echo started", learners=2)
    eventually("it waits", lambda: (job.root / "state/rendezvous/attempt-1/rank-0").exists())
    time.sleep(0.3)
    assert first.lines == []
    second = job.run("echo started", rank=1, learners=2)
    assert (first.wait(), second.wait()) == (0, 0)
    assert (first.lines, second.lines) == (["started"], ["started"])


def test_learners_that_do_not_come_are_named(job: Job) -> None:
    learner = job.run("echo never", learners=4, rank=1, FFDL_START_TIMEOUT_SECONDS="0.2")
    assert learner.wait() == 75
    assert learner.report["reason"] == "rendezvous: ranks 0,2,3 did not come within 0.2 s"
    assert json.loads(learner.termination.read_text())["reason"] == learner.report["reason"]
    assert learner.lines == []


def test_learners_of_an_older_attempt_are_not_taken_for_this_ones(job: Job) -> None:
    old = [job.start("true", rank=rank, learners=2) for rank in (0, 1)]
    assert [learner.wait() for learner in old] == [0, 0]
    new = job.run("echo never", learners=2, attempt=2, FFDL_START_TIMEOUT_SECONDS="0.2")
    assert new.wait() == 75
    assert new.report["reason"].startswith("rendezvous: rank 1 did not come")


def test_a_half_written_address_is_waited_for(job: Job) -> None:
    folder = job.root / "state/rendezvous/attempt-1"
    folder.mkdir(parents=True)
    (folder / "rank-1").write_text('{"ip": "127.0')
    first = job.start(SHOW, learners=2)
    second = job.run(SHOW, rank=1, learners=2)
    assert (first.wait(), second.wait()) == (0, 0)


@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.9", "::"])
def test_a_port_that_someone_listens_on_is_not_taken(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as other:
        try:
            other.bind((address, 0))
        except OSError:
            pytest.skip("no IPv6 here")
        other.listen()
        taken = other.getsockname()[1]
        assert free_port(taken) != taken


def test_the_masters_port_is_the_one_that_it_found_free(job: Job) -> None:
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        taken = str(other.getsockname()[1])
        gang = [job.start(SHOW, rank=rank, learners=2, FFDL_BASE_PORT=taken) for rank in (0, 1)]
        assert [learner.wait() for learner in gang] == [0, 0]
    masters = {learner.lines[0].rpartition(":")[2] for learner in gang}
    assert len(masters) == 1
    assert masters != {taken}


def test_an_address_of_ipv6_is_written_in_brackets() -> None:
    assert Peer(0, "fd00::1", 2222).address == "[fd00::1]:2222"


def test_a_volume_that_cannot_be_written_is_told(job: Job) -> None:
    (job.root / "state" / "rendezvous").write_text("no directory")
    learner = job.run("echo never", learners=2)
    assert learner.wait() == 74
    assert "the job's volume can't be written" in learner.report["reason"]

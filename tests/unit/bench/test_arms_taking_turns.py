"""Arms meet the driver over real sockets and take turns; one that does not come, dies, hangs or lies is named."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ffdl_ops.lab.bench.overhead.turns import ArmFailed, Asked, Meeting

STANDIN = Path(__file__).parents[2] / "support" / "standin.py"


@pytest.fixture
def meeting() -> Iterator[Meeting]:
    with Meeting() as made:
        yield made


@pytest.fixture
def start(meeting: Meeting) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts the stand-in program in an arm."""
    started = []

    def begin(arm: str, *flags: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(STANDIN), "--turns", meeting.address, "--turns-token", meeting.token]
        started.append(subprocess.Popen([*command, "--arm", arm, "--loops", "2000", *flags], stdout=subprocess.DEVNULL))
        return started[-1]

    yield begin
    for one in started:
        one.kill()
        one.wait()


def exit_of(process: subprocess.Popen[bytes]) -> Callable[[str], str | None]:
    return lambda arm: None if process.poll() is None else f"exit code {process.returncode}"


def alive(arm: str) -> str | None:
    return None


def asked(number: int = 1, steps: int = 3, **more: float) -> Asked:
    return Asked(number, steps, images=8, **more)  # type: ignore[arg-type]


def test_arms_come_train_in_turn_and_end(
    meeting: Meeting, start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = [start("bare")]
    monkeypatch.setenv("CHECKPOINT_DIR", str(tmp_path))
    programs.append(start("platform"))
    came: list[str] = []
    meeting.wait_for(["bare", "platform"], within_s=30, problem=alive, met=came.append)
    assert sorted(came) == ["bare", "platform"]
    assert meeting.players["bare"].hello.pid == programs[0].pid and meeting.players["bare"].hello.images_per_s > 0
    for number, arm in enumerate(["platform", "bare", "platform"], start=1):
        answer = meeting.players[arm].play(asked(number, save=number == 1))
        assert (answer["images"], answer["steps"], answer["saves"]) == (24, 3, int(number == 1))
        assert answer["elapsed_s"] > 0 and (answer["save_s"] > 0) == (number == 1)
    assert len(list(tmp_path.glob("standin-*.bin"))) == 1
    for player in meeting.players.values():
        player.end()
    assert [one.wait(10) for one in programs] == [0, 0]


def test_an_arm_that_ends_before_its_first_turn_is_named(
    meeting: Meeting, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    start("bare")
    dead = subprocess.Popen([sys.executable, "-c", "raise SystemExit(4)"])
    with pytest.raises(ArmFailed, match="^pod: it has not come to its first turn: exit code 4$"):
        meeting.wait_for(["bare", "pod"], within_s=30, problem=lambda arm: exit_of(dead)(arm) if arm == "pod" else None)


def test_an_arm_that_never_comes_is_named(meeting: Meeting) -> None:
    with pytest.raises(ArmFailed, match="^pod: it has not come to its first turn within 1 s$"):
        meeting.wait_for(["pod"], within_s=1, problem=alive)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--die-at-turn", "2"], "its program ended in turn 2"),
        (["--hang-at-turn", "2"], "it has not answered turn 2 within 1 s"),
        (["--lie", "steps"], "answers turn 2 with .* steps should be 3"),
        (["--lie", "images"], "answers turn 2 with .* images should be 24"),
        (
            ["--lie", "elapsed"],
            "answers turn 2 with .* elapsed_s should be above 0 and at most the .* s that have passed",
        ),
        (["--lie", "words"], "answers turn 2 with 'trained well': that is no JSON object"),
        (["--lie", "endless"], "answers turn 2 without an end"),
    ],
)
def test_an_arm_that_fails_in_its_turn_is_named(
    meeting: Meeting, start: Callable[..., subprocess.Popen[bytes]], flags: list[str], said: str
) -> None:
    start("pod", "--loops", "200000", *flags)
    meeting.wait_for(["pod"], within_s=30, problem=alive)
    with pytest.raises(ArmFailed, match=f"^pod: .*{said}"):
        meeting.players["pod"].play(asked(2, limit_s=1 if "--hang-at-turn" in flags else 30))


def test_what_the_arms_own_side_knows_of_its_end_is_told(
    meeting: Meeting, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    start("pod", "--hang-at-turn", "1")
    meeting.wait_for(["pod"], within_s=30, problem=alive)
    with pytest.raises(ArmFailed, match="pod: it ended in turn 1: evicted"):
        meeting.players["pod"].play(asked(limit_s=30), problem=lambda arm: "evicted")


def test_a_driver_that_has_gone_leaves_no_program_behind(
    meeting: Meeting, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    program = start("bare")
    meeting.wait_for(["bare"], within_s=30, problem=alive)
    meeting.players["bare"].close()
    assert program.wait(10) == 75


def hello(meeting: Meeting, **changes: object) -> bytes:
    return json.dumps({"hello": meeting.token, "arm": "pod", "images_per_s": 1.0, **changes}).encode() + b"\n"


def test_strangers_are_not_let_in_and_hold_nobody_up(
    meeting: Meeting, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    host, _, port = meeting.address.rpartition(":")
    strangers = [socket.create_connection((host, int(port))) for _ in range(9)]
    said = [
        b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b"\xff\n", b"x" * 200_000, hello(meeting, hello="guess"), hello(meeting, hello=None),
        hello(meeting, arm="platform"), hello(meeting, images_per_s=0),
    ]  # fmt: skip
    for stranger, text in zip(strangers, said, strict=False):  # the last one says nothing
        try:
            stranger.sendall(text)
        except OSError:
            continue
    start("pod")
    meeting.wait_for(["pod"], within_s=30, problem=alive)
    assert list(meeting.players) == ["pod"]
    assert meeting.players["pod"].play(asked())["images"] == 24


def test_an_arm_that_is_there_is_not_replaced(meeting: Meeting, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    start("pod")
    meeting.wait_for(["pod"], within_s=30, problem=alive)
    host, _, port = meeting.address.rpartition(":")
    with socket.create_connection((host, int(port))) as second:
        second.sendall(hello(meeting))
        with pytest.raises(ArmFailed, match="bare"):
            meeting.wait_for(["pod", "bare"], within_s=1, problem=alive)
        second.settimeout(5)
        assert second.recv(10) == b""
    assert meeting.players["pod"].play(asked())["images"] == 24


def test_an_arm_that_trickles_its_hello_does_not_stop_the_clock(meeting: Meeting) -> None:
    host, _, port = meeting.address.rpartition(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(b"{")
        began = time.monotonic()
        with pytest.raises(ArmFailed, match="pod"):
            meeting.wait_for(["pod"], within_s=1, problem=alive)
        assert time.monotonic() - began < 10

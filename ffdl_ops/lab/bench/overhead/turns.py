"""The driver's side of the turns: arms come, wait, train when told, answer; whoever does not is named.

Lines of JSON over TCP on the loopback address. An arm comes with ``{"hello": TOKEN, "arm": "pod", "images_per_s": 12.3}``; each
``{"turn": 3, "steps": 20, "settle": 1, "save": false}`` is answered by what was trained; ``{"end": true}`` ends the program.
What an answer claims is checked against what was asked and against this side's clock.
"""

from __future__ import annotations

import hmac
import json
import math
import secrets
import select
import socket
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeGuard

from ffdl_ops.core.errors import TemporaryError

__all__ = ["ArmFailed", "Asked", "Hello", "Meeting", "Player"]

_LOOK_S = 1.0
_HELLO_S = 10.0
_LINE_BYTES = 64 << 10
_CLOCK_S = 0.05
"""By so much, and a hundredth, may a program's own time be longer than ours."""


class ArmFailed(TemporaryError):
    """An arm did not come, died, hangs, or answers what can't be.

    :param arm: which.
    :param problem: what is wrong with it.
    """

    def __init__(self, arm: str, problem: str) -> None:
        super().__init__(f"{arm}: {problem}")
        self.arm = arm
        self.problem = problem


@dataclass(frozen=True)
class Hello:
    """What an arm says when it has warmed up.

    :param pid: its process, where it and we see the same ones.
    :param start_s: seconds of its start by step.
    :param images_per_s: throughput while it warmed up; to plan with, not to compare.
    """

    arm: str
    pid: int | None
    start_s: Mapping[str, float]
    images_per_s: float


@dataclass(frozen=True)
class Asked:
    """A turn.

    :param number: never asked of an arm before.
    :param steps: that count.
    :param settle: steps before, which don't.
    :param images: of one step.
    :param save: whether to save first.
    :param limit_s: seconds until the arm is taken to hang.
    """

    number: int
    steps: int
    images: int
    settle: int = 1
    save: bool = False
    limit_s: float = 60.0


@dataclass
class _Line:
    """What has come of a line yet."""

    connection: socket.socket
    since: float = field(default_factory=time.monotonic)
    content: bytes = b""

    def take(self) -> bytes | None:
        """The line, once it is whole.

        :raises EOFError: when the other side has closed.
        :raises ValueError: when it is longer than any line may be.
        """
        try:
            chunk = self.connection.recv(_LINE_BYTES)
        except OSError:
            chunk = b""
        if not chunk:
            raise EOFError
        self.content += chunk
        line, end, self.content = self.content.partition(b"\n")
        if end:
            return line
        self.content = line
        if len(line) > _LINE_BYTES:
            raise ValueError
        return None


class Meeting:
    """Where arms come to. A context manager: at its end every connection is closed.

    :param token: what they have to know; a new one by default.
    """

    def __init__(self, token: str | None = None) -> None:
        self.token = token or secrets.token_hex(16)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.players: dict[str, Player] = {}

    def __enter__(self) -> Meeting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for player in self.players.values():
            player.close()
        self._listener.close()

    def wait_for(
        self,
        arms: Collection[str],
        *,
        within_s: float,
        problem: Callable[[str], str | None],
        met: Callable[[str], None] = lambda arm: None,
    ) -> None:
        """Wait until all have come.

        :param problem: why an arm will not come any more; ``None`` while it may. Asked about once a second.
        :param met: told of each arm as it comes.
        :raises ArmFailed: for the first that does not come.
        """
        deadline = time.monotonic() + within_s
        pending: dict[socket.socket, _Line] = {}
        looked = time.monotonic()
        try:
            while missing := [arm for arm in arms if arm not in self.players]:
                ready, _, _ = select.select([self._listener, *pending], [], [], _LOOK_S)
                for one in ready:
                    if one is self._listener:
                        connection, _ = one.accept()
                        pending[connection] = _Line(connection)
                        continue
                    arm = self._greet(pending[one], missing)
                    if arm is not None:
                        met(arm)
                    if arm is not None or one.fileno() < 0:
                        del pending[one]
                now = time.monotonic()
                for late in [one for one, line in pending.items() if now - line.since > _HELLO_S]:
                    late.close()
                    del pending[late]
                if now - looked >= _LOOK_S:
                    looked = now
                    self._look(missing, problem, deadline, within_s)
        finally:
            for one in pending:
                one.close()

    def _look(
        self, missing: Collection[str], problem: Callable[[str], str | None], deadline: float, within_s: float
    ) -> None:
        for arm in missing:
            if arm in self.players:
                continue
            why = problem(arm)
            if why is not None:
                raise ArmFailed(arm, f"it has not come to its first turn: {why}")
            if time.monotonic() > deadline:
                raise ArmFailed(arm, f"it has not come to its first turn within {within_s:.0f} s")

    def _greet(self, line: _Line, missing: Collection[str]) -> str | None:
        """The arm that has said its hello; a stranger's connection is closed, and nothing said to it."""
        try:
            text = line.take()
            if text is None:
                return None
            said = json.loads(text)
            known = isinstance(said, dict) and hmac.compare_digest(str(said.get("hello")).encode(), self.token.encode())
            arm = str(said.get("arm")) if known else ""
            if arm not in missing or arm in self.players:
                raise ValueError
            self.players[arm] = Player(line.connection, _hello(arm, said))
        except (EOFError, ValueError, TypeError):
            line.connection.close()
            return None
        return arm


class Player:
    """One arm that has come.

    :param connection: to it.
    :param hello: what it said.
    """

    def __init__(self, connection: socket.socket, hello: Hello) -> None:
        self.hello = hello
        self._line = _Line(connection)
        connection.settimeout(_LOOK_S)

    def play(self, asked: Asked, problem: Callable[[str], str | None] = lambda arm: None) -> dict[str, Any]:
        """Let it train.

        :param problem: why nothing more will come of it; ``None`` while it may.
        :returns: ``images``, ``steps``, ``elapsed_s``, ``saves``, ``save_s``, ``cpu_s``, ``data_wait_s``, ``started_at``.
        :raises ArmFailed: when it does not answer in time, has gone, or answers what can't be.
        """
        began = time.monotonic()
        told = {"turn": asked.number, "steps": asked.steps, "settle": asked.settle, "save": asked.save}
        text = self._exchange(told, asked, problem)
        return _checked(self.hello.arm, text, asked, time.monotonic() - began)

    def _exchange(self, told: Mapping[str, Any], asked: Asked, problem: Callable[[str], str | None]) -> bytes:
        arm, deadline = self.hello.arm, time.monotonic() + asked.limit_s
        try:
            self._send(told)
            while True:
                ready, _, _ = select.select([self._line.connection], [], [], _LOOK_S)
                if ready and (text := self._line.take()) is not None:
                    return text
                why = problem(arm)
                if why is not None:
                    raise ArmFailed(arm, f"it ended in turn {asked.number}: {why}")
                if time.monotonic() > deadline:
                    raise ArmFailed(arm, f"it has not answered turn {asked.number} within {asked.limit_s:.0f} s")
        except EOFError:
            raise ArmFailed(arm, f"its program ended in turn {asked.number}") from None
        except OSError as error:
            raise ArmFailed(arm, f"its program has gone before turn {asked.number} ({type(error).__name__})") from None
        except ValueError:
            raise ArmFailed(arm, f"it answers turn {asked.number} without an end") from None

    def end(self) -> None:
        """Tell it to end. One that has gone already is told nothing."""
        try:
            self._send({"end": True})
        except OSError:
            self.close()

    def close(self) -> None:
        """Let go of it."""
        self._line.connection.close()

    def _send(self, value: Mapping[str, Any]) -> None:
        self._line.connection.sendall(json.dumps(value).encode() + b"\n")


def _hello(arm: str, said: Mapping[str, Any]) -> Hello:
    start = said.get("start_s")
    rate = said.get("images_per_s")
    if not _is_number(rate) or rate <= 0:
        raise ValueError
    steps = (
        {str(name): float(value) for name, value in start.items() if _is_number(value)}
        if isinstance(start, dict)
        else {}
    )
    pid = said.get("pid")
    return Hello(arm, pid if isinstance(pid, int) else None, steps, float(rate))


def _checked(arm: str, text: bytes, asked: Asked, passed_s: float) -> dict[str, Any]:
    """An answer that can be true."""

    def refuse(what: str) -> ArmFailed:
        return ArmFailed(arm, f"it answers turn {asked.number} with {text[:200].decode('utf-8', 'replace')!r}: {what}")

    try:
        said = json.loads(text)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise refuse("that is no JSON object")
    for name, due in (("turn", asked.number), ("steps", asked.steps), ("images", asked.steps * asked.images)):
        if said.get(name) != due:
            raise refuse(f"{name} should be {due}")
    elapsed = said.get("elapsed_s")
    if not _is_number(elapsed) or not 0 < elapsed <= passed_s * 1.01 + _CLOCK_S:
        raise refuse(f"elapsed_s should be above 0 and at most the {passed_s:.3f} s that have passed")
    for name in ("cpu_s", "data_wait_s", "save_s", "saves", "started_at"):
        value = said.get(name)
        if value is not None and (not _is_number(value) or value < 0):
            raise refuse(f"{name} should be a number from 0 on")
    numbers = ("cpu_s", "data_wait_s", "started_at")
    return {
        "images": int(said["images"]),
        "steps": int(said["steps"]),
        "elapsed_s": float(elapsed),
        "saves": int(said.get("saves") or 0),
        "save_s": float(said.get("save_s") or 0.0),
        **{name: None if said.get(name) is None else float(said[name]) for name in numbers},
    }


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

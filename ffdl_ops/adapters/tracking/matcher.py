"""Users' regular expressions, run where they can do no harm.

A pattern such as ``(a+)+$`` runs for ever on the wrong line, and Python's `re` holds the interpreter's lock
meanwhile: in Airflow's triggerer it would stop every tenant's waiting jobs. Refusing dangerous patterns by
their looks refuses good ones and misses bad ones. So they run in a child process with a time limit for each
match and a memory limit; the child is killed when a match takes longer, and a pattern that does so twice is
switched off and reported.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from typing import Any

from ffdl_ops.core.errors import UserError

__all__ = ["Matcher"]

_START_S = 10.0
_STRIKES = 2
_PIECE = 65536

# Speaks one JSON value a line: first the patterns, then [name, text] pairs. Nothing of ours is imported (-I
# -S), so it is up in some 20 ms.
_CHILD = """
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
compiled, wrong = {}, {}
for name, pattern in json.loads(sys.stdin.readline()).items():
    try:
        compiled[name] = re.compile(pattern, re.MULTILINE | re.DOTALL)
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        wrong[name] = str(error) or type(error).__name__
print(json.dumps(wrong), flush=True)
for line in sys.stdin:
    name, text = json.loads(line)
    found = compiled[name].search(text)
    answer = None
    if found:
        answer = {str(at + 1): value for at, value in enumerate(found.groups())}
        answer.update(found.groupdict())
    print(json.dumps(answer), flush=True)
"""


class _TooSlow(Exception):
    """The child did not answer in time, or died."""


class Matcher:
    """Searches texts for patterns, each search within a time limit. Not for several threads at once.

    :param patterns: name to regular expression (of `re`, with MULTILINE and DOTALL).
    :param limit_s: seconds that one search may take.
    :raises UserError: a pattern that is not a regular expression; all such are named.
    """

    def __init__(self, patterns: Mapping[str, str], *, limit_s: float = 1.0) -> None:
        self._patterns = dict(patterns)
        self._limit_s = limit_s
        self._strikes: dict[str, int] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._cleanup: Any = None
        self._rest = b""
        self.problems: list[str] = []

    def search(self, name: str, text: str) -> dict[str, str | None] | None:
        """The first match of a pattern: its groups by number and by name; ``None`` without a match.

        :raises UserError: at the first use, a pattern that is not a regular expression; all such are named.
        """
        if self._strikes.get(name, 0) >= _STRIKES:
            return None
        try:
            if self._child is None:
                self._start()
            answer = self._ask([name, text], self._limit_s)
        except _TooSlow:
            self.close()
            self._strike(name)
            return None
        return answer if isinstance(answer, dict) else None

    def close(self) -> None:
        """End the child process; the next search starts another."""
        if self._cleanup is not None:
            self._cleanup()
        self._child, self._cleanup, self._rest = None, None, b""

    def _start(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
        )
        self._cleanup = weakref.finalize(self, _end, self._child)
        wrong = self._ask(self._patterns, _START_S)
        if wrong:
            self.close()
            named = "; ".join(f"evaluation_metrics.groups.{name}.regex: {why}" for name, why in sorted(wrong.items()))
            raise UserError(f"Not a regular expression: {named}")

    def _ask(self, question: Any, limit_s: float) -> Any:
        child = self._child
        if child is None or child.stdin is None or child.stdout is None:
            raise _TooSlow
        deadline = time.monotonic() + limit_s
        try:
            child.stdin.write(json.dumps(question).encode() + b"\n")
            child.stdin.flush()
        except OSError:
            raise _TooSlow from None
        waiting = select.poll()
        waiting.register(child.stdout, select.POLLIN)
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not waiting.poll(left * 1000):
                raise _TooSlow
            piece = os.read(child.stdout.fileno(), _PIECE)
            if not piece:
                raise _TooSlow
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def _strike(self, name: str) -> None:
        self._strikes[name] = self._strikes.get(name, 0) + 1
        if self._strikes[name] == _STRIKES:
            self.problems.append(
                f"evaluation_metrics.groups.{name}.regex took longer than {self._limit_s:g} s on a line, "
                "twice, and is switched off; avoid repeats inside repeats, such as (a+)+ or (.*)*."
            )


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                # What was left to write goes with the process.
                continue
    child.wait()

"""Reading the learners' output by cursor: a line is taken once, and no reader ever holds much of it.

Every line of the launcher begins with the learner's own time stamp, in order. A cursor is the newest stamp taken of each
learner; reading again from a little before it and dropping what is not newer survives restarts of any reader, a log
that was rotated, and a connection that broke.

A learner may print more than anybody can pass on. A reader that has fallen behind goes on from the log's end, and its cursor
keeps where the gap began: the log file in the bucket has everything.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ffdl_ops.pipeline.services import Services, now

if TYPE_CHECKING:
    from ffdl_ops.adapters.cluster.observe import PodView

__all__ = ["LogCursor", "new_lines"]

_OVERLAP_S = 2
_MOST_BYTES = 1 << 20
_LAST_LINES = 100
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z", re.ASCII)


@dataclass
class LogCursor:
    """The newest time stamp taken, by pod or learner.

    :param gaps: the newest stamp before the first line that was passed over, of each whose reader had fallen behind.
    """

    newest: dict[str, str] = field(default_factory=dict)
    gaps: dict[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> dict[str, str]:
        """As `newest`, but where lines were passed over, where that began: up to there everything was taken."""
        return {**self.newest, **self.gaps}

    def fresh(self, key: str, lines: Iterable[str]) -> Iterator[str]:
        """The lines that are newer than what was taken before; lines without a stamp go with the one before them."""
        last = self.newest.get(key, "")
        passing = not last
        for line in lines:
            stamp = line.partition(" ")[0]
            if _STAMP.fullmatch(stamp):
                passing = stamp > last
                if passing:
                    self.newest[key] = last = stamp
            if passing and line:
                yield line

    def take(self, key: str, lines: Iterable[str], most: int | None = None) -> list[str]:
        """As `fresh`, at once.

        :param most: lines to take; the next call goes on after them.
        """
        return list(itertools.islice(self.fresh(key, lines), most))

    def since_s(self, key: str) -> int | None:
        """How many seconds back to read so that nothing is missed; ``None`` for all."""
        try:
            moment = datetime.fromisoformat(self.newest[key].replace("Z", "+00:00")).astimezone(UTC)
        except (KeyError, ValueError):
            return None
        return max(1, int((now() - moment).total_seconds()) + _OVERLAP_S)


def new_lines(
    svc: Services, view: PodView, cursor: LogCursor, *, most: int | None = None, last: bool = False
) -> tuple[list[str], bool]:
    """What a learner has printed since the cursor.

    :param most: lines to take at once; the rest is taken by the next calls.
    :param last: whether there will be no next call: the last lines come in any case.
    :returns: the lines, and whether lines before the last of them were passed over.
    """
    if not view.running and not view.ended:
        return [], False
    since_s = cursor.since_s(view.name)
    text = svc.cluster.pod_log(view.namespace, view.name, since_s=since_s, most_bytes=_MOST_BYTES)
    behind = len(text.encode("utf-8", "replace")) >= _MOST_BYTES
    lines = text.split("\n")
    taken = cursor.take(view.name, lines[:-1] if behind and len(lines) > 1 else lines, most)
    if not behind and not (last and most is not None and len(taken) == most):
        return taken, False
    reached = cursor.newest.get(view.name, "")
    text = svc.cluster.pod_log(view.namespace, view.name, since_s=since_s, tail=_LAST_LINES)
    end = cursor.take(view.name, text.split("\n"))
    if not end or len(end) < _LAST_LINES:
        return taken + end, False  # the end goes on where the rest had come to
    cursor.gaps.setdefault(view.name, reached)
    return taken + end, True

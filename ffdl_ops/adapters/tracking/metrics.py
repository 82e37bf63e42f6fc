"""From a learner's log lines to points, by the manifest's ``evaluation_metrics``.

Pure but for one thing: a manifest's own regular expressions run in a child process (`matcher`), because they
come from users and may run for ever. Points carry the learner's own time stamp, so that reading a log twice
gives the same points.

Which learner counts: learner 1, which is where programs of a gang report; the others print the same. A regex
group with ``meta.subid`` (FfDL's way to tell sources apart) is taken from every learner, its keys ending in
``.<subid>`` (the value that ``$name`` matched) or, for a literal, in ``.learner-<k>``. Events that carry a
``subid`` do likewise.

By type: none and ``logger`` read ``key=value`` lines (`printed`); ``regex_extractor`` reads the groups alone;
``emetrics_file`` and ``tensorboard`` only the launcher's ``ffdl:metric`` events, which count under every type.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from ffdl_ops.adapters.tracking.lines import LogLine, parse_line, stamp_ms
from ffdl_ops.adapters.tracking.matcher import Matcher
from ffdl_ops.adapters.tracking.patterns import Group, read_groups
from ffdl_ops.adapters.tracking.points import Point, number
from ffdl_ops.adapters.tracking.printed import read_printed

__all__ = ["LogLine", "MetricExtractor", "Point", "parse_line"]

_REPORTER = 1
_LOOKAHEAD = 4
_MAX_STEP = 2**53


class MetricExtractor:
    """Reads the lines of one attempt, in order.

    :param evaluation_metrics: the manifest's section as a mapping, ``None`` for the default.
    :raises UserError: a group's regular expression or reference is wrong.
    """

    def __init__(self, evaluation_metrics: Mapping[str, Any] | None = None) -> None:
        spec = evaluation_metrics or {}
        self._reads_printed = spec.get("type") in (None, "logger")
        self._groups: dict[str, Group] = {}
        self._matcher: Matcher | None = None
        if spec.get("type") == "regex_extractor":
            self._groups = read_groups(spec.get("groups") or {})
            self._matcher = Matcher({name: group.pattern for name, group in self._groups.items()})
        ahead = spec.get("line_lookahead") or spec.get("linelookahead") or _LOOKAHEAD
        self._ahead = max(1, min(20, int(ahead)))
        self._windows: dict[int, deque[str]] = {}
        self._step: int | None = None
        self._epoch: int | None = None

    @property
    def problems(self) -> list[str]:
        """What kept metrics from being read, for the job's user; empty when all went well."""
        return self._matcher.problems if self._matcher else []

    def feed(self, line: str) -> list[Point]:
        """The points in a line; none for a line that is not the launcher's."""
        parsed = parse_line(line)
        if parsed is None:
            return []
        if parsed.event is not None:
            return list(self._from_event(parsed))
        if self._matcher is not None:
            return list(self._from_groups(parsed, self._matcher))
        if self._reads_printed and parsed.learner == _REPORTER:
            return list(self._from_printed(parsed))
        return []

    def close(self) -> None:
        """End the child process, if there is one; it ends with this object, too."""
        if self._matcher is not None:
            self._matcher.close()

    def _from_printed(self, line: LogLine) -> Iterator[Point]:
        found = read_printed(line.text)
        if found is None:
            return
        self._step = found.step if found.step is not None else self._step
        self._epoch = found.epoch if found.epoch is not None else self._epoch
        if found.step is not None:
            step = found.step
        elif found.epoch is not None:
            step = found.epoch
        else:
            step = self._step if self._step is not None else self._epoch or 0
        for key, value in found.values:
            yield Point(key, value, step, line.timestamp_ms)

    def _from_event(self, line: LogLine) -> Iterator[Point]:
        payload = line.payload
        if line.event != "metric":
            if line.learner == _REPORTER:
                self._step = _counter(payload.get("step", payload.get("restored_step")), self._step)
            return
        suffix = _suffix(payload.get("subid") or _mapping(payload.get("meta")).get("subid"), line.learner)
        if suffix is None:
            return
        times = _mapping(payload.get("etimes"))
        step = _counter(payload.get("step", _plain(times.get("iteration", times.get("epoch")))), self._step) or 0
        when = stamp_ms(payload.get("time", _mapping(payload.get("meta")).get("time"))) or line.timestamp_ms
        values = _mapping(payload.get("values")) or {str(payload.get("key", "")): payload.get("value")}
        for key, raw in values.items():
            value = number(_plain(raw))
            if key and value is not None:
                yield Point(f"{key}{suffix}", value, step, when)

    def _from_groups(self, line: LogLine, matcher: Matcher) -> Iterator[Point]:
        """Patterns see the last lines taken together, as in FfDL; what matched is used up."""
        window = self._windows.setdefault(line.learner, deque(maxlen=self._ahead))
        window.append(line.text)
        text = "\n".join(window)
        matched = False
        for name, group in self._groups.items():
            if line.learner != _REPORTER and group.subid is None:
                continue
            found = matcher.search(name, text)
            if found is None:
                continue
            matched = True
            suffix = group.suffix(found, line.learner)
            step = _counter(group.step(found), self._step) or 0
            when = stamp_ms(group.time(found)) or line.timestamp_ms
            for key, raw in group.values(found):
                value = number(raw)
                if value is not None:
                    yield Point(f"{key}{suffix}", value, step, when)
        if matched:
            window.clear()


def _suffix(subid: Any, learner: int) -> str | None:
    """What a key ends in; ``None`` when this learner's points are not taken."""
    if subid:
        return f".{str(subid)[:40]}"
    return "" if learner == _REPORTER else None


def _plain(value: Any) -> Any:
    """FfDL writes ``{"type": "INT", "value": "3"}`` for 3."""
    return value.get("value") if isinstance(value, Mapping) else value


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _counter(value: Any, otherwise: int | None) -> int | None:
    found = number(value)
    if found is None or not 0 <= found <= _MAX_STEP:
        return otherwise
    return int(found)

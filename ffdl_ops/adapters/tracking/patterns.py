"""FfDL's regex groups: macros in a pattern, and which of its matches is a value, the step, the time.

A group in a manifest::

    groups:
      train:
        regex: 'iteration {{INT:iteration}}, loss = {{FLOAT:loss}}'
        meta: {time: $time}
        scalars: {loss: {type: FLOAT, value: $loss}}
        etimes: {iteration: {type: INT, value: $iteration}}

Macros may be written ``{{FLOAT}}``, ``{{FLOAT:name}}`` or, as FfDL's own code has them, ``%{FLOAT:name}``;
``values`` is FfDL's older word for ``scalars``. ``$name`` refers to what matched, anything else stands for
itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ffdl_ops.core.errors import UserError

__all__ = ["MACROS", "Group", "expand", "read_groups"]

MACROS = {
    "INT": r"[-+]?\d+",
    "FLOAT": r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|[nN]a[nN]|[iI]nf)",
    "HEX": r"[-+]?(?:0[xX])?[0-9a-fA-F]+",
    "INT_ANY": r"[-+]?(?:0[xX][0-9a-fA-F]+|\d+)",
    "TIMESTAMP": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[-+]\d\d:?\d\d)?",
    "GLOG_STAMP": r"[EFIW]\d{4}\s+\d\d:\d\d:\d\d\.\d+",
}
"""What each macro stands for."""

_MAX_GROUPS = 20
_MAX_PATTERN = 2000
_MACRO = re.compile(
    r"\{\{\s*(?P<a>[A-Z_]+)\s*(?::\s*(?P<a_name>[A-Za-z_]\w*)\s*)?\}\}|%\{(?P<b>[A-Z_]+)(?::(?P<b_name>[A-Za-z_]\w*))?\}",
    re.ASCII,
)


@dataclass(frozen=True)
class Group:
    """One group, ready to use.

    :param pattern: the regular expression with its macros replaced.
    :param scalars: metric key to literal or ``$name``.
    :param etimes: ``iteration`` or ``epoch`` to literal or ``$name``.
    :param timestamp: literal or ``$name``, ``None`` for the line's own.
    :param subid: literal or ``$name``; what tells the learners apart, ``None`` when only learner 1 counts.
    """

    pattern: str
    scalars: Mapping[str, Any]
    etimes: Mapping[str, Any]
    timestamp: str | None
    subid: str | None

    def suffix(self, found: Mapping[str, str | None], learner: int) -> str:
        """What a match's keys end in, to tell learners apart; empty when only learner 1 counts."""
        if self.subid is None:
            return ""
        matched = _resolve(self.subid, found) if self.subid.startswith("$") else None
        return f".{matched or f'learner-{learner}'}"[:40]

    def values(self, found: Mapping[str, str | None]) -> list[tuple[str, Any]]:
        """The metrics of a match, as texts."""
        return [(key, _resolve(reference, found)) for key, reference in self.scalars.items()]

    def step(self, found: Mapping[str, str | None]) -> Any:
        """The step of a match: its iteration, else its epoch, else its first counter, else ``None``."""
        names = [name for name in ("iteration", "step", "epoch") if name in self.etimes] or list(self.etimes)
        return _resolve(self.etimes[names[0]], found) if names else None

    def time(self, found: Mapping[str, str | None]) -> Any:
        """The time of a match, as text; ``None`` for the line's own."""
        text = _resolve(self.timestamp, found) if self.timestamp else None
        return str(text).replace(",", ".") if text else None


def expand(pattern: str) -> str:
    """A pattern with its macros replaced.

    :raises UserError: an unknown macro.
    """

    def one(found: re.Match[str]) -> str:
        macro, name = found["a"] or found["b"], found["a_name"] or found["b_name"]
        if macro not in MACROS:
            raise UserError(f"unknown macro {found[0]!r}; there are {', '.join(sorted(MACROS))}")
        return f"(?P<{name}>{MACROS[macro]})" if name else f"(?:{MACROS[macro]})"

    return _MACRO.sub(one, pattern)


def read_groups(groups: Mapping[str, Any]) -> dict[str, Group]:
    """The groups of a manifest.

    :raises UserError: naming the group and what is wrong with it.
    """
    if len(groups) > _MAX_GROUPS:
        raise UserError(f"evaluation_metrics.groups: {len(groups)} groups; there may be {_MAX_GROUPS} at most.")
    return {name: _read_group(name, group or {}) for name, group in groups.items()}


def _read_group(name: str, group: Mapping[str, Any]) -> Group:
    where = f"evaluation_metrics.groups.{name}"
    regex = str(group.get("regex") or "")
    if not regex or len(regex) > _MAX_PATTERN:
        raise UserError(f"{where}.regex: {len(regex)} characters; it needs 1 to {_MAX_PATTERN}.")
    try:
        pattern = expand(regex)
    except UserError as error:
        raise UserError(f"{where}.regex: {error}") from None
    meta = group.get("meta") or {}
    return Group(
        pattern=pattern,
        scalars={key: _reference(item) for key, item in (group.get("scalars") or group.get("values") or {}).items()},
        etimes={key: _reference(item) for key, item in (group.get("etimes") or {}).items()},
        timestamp=meta.get("time") or None,
        subid=meta.get("subid") or None,
    )


def _reference(item: Any) -> Any:
    return item.get("value") if isinstance(item, Mapping) else item


def _resolve(reference: Any, found: Mapping[str, str | None]) -> Any:
    if isinstance(reference, str) and reference.startswith("$"):
        return found.get(reference[1:].strip("{}"))
    return reference

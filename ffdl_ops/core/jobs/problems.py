"""What is wrong with a text that a person wrote: every problem at once, each with its path, the reason and a way out."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ffdl_ops.core.errors import UserError

__all__ = ["Problem", "Problems", "nearest"]

_SHOWN = 50
_VALUE_LENGTH = 60
_SECRET = re.compile(r"(?i)connection|passw|secret|token|credential|api_?key")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    :param path: the field, as in ``data_stores[0].connection.auth_url``; empty for the whole text.
    :param value: what was given, for display: shortened, and hidden where it may be a credential.
    :param reason: what is wrong, naming the limit.
    :param hint: what to do; may be empty.
    """

    path: str
    value: str
    reason: str
    hint: str = ""

    @classmethod
    def of(cls, path: str, value: Any, reason: str, hint: str = "") -> Problem:
        """A problem with a value of any kind, made fit to be shown."""
        return cls(path=path, value=_display(path, value), reason=reason, hint=hint)

    def __str__(self) -> str:
        shown = f" (got {self.value})" if self.value else ""
        place = f"{self.path}: " if self.path else ""
        return f"{place}{self.reason}{shown}" + (f"; {self.hint}" if self.hint else "")


class Problems(UserError):
    """A text with problems: all of them.

    :param problems: at least one.
    :param source: the file that they are in, for people who have several.
    """

    def __init__(self, problems: Iterable[Problem], source: str = "") -> None:
        self.problems: Sequence[Problem] = tuple(problems)
        self.source = source
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [str(problem) for problem in self.problems[:_SHOWN]]
        if len(self.problems) > _SHOWN:
            lines.append(f"and {len(self.problems) - _SHOWN} more problems")
        if len(lines) == 1:
            return f"{self.source}: {lines[0]}" if self.source else lines[0]
        place = f" in {self.source}" if self.source else ""
        return f"{len(self.problems)} problems{place}:\n" + "\n".join(f"- {line}" for line in lines)


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint with the valid name that is most like ``name``, or with all valid names when none is."""
    names = sorted(set(valid))
    lowered = {candidate.lower(): candidate for candidate in names}
    alike = difflib.get_close_matches(name.lower()[:100], list(lowered), n=1, cutoff=0.6)
    if alike:
        return f"did you mean {lowered[alike[0]]!r}?"
    return f"valid here: {', '.join(names)}" if names else ""


def _display(path: str, value: Any) -> str:
    if value is None or _SECRET.search(path):
        return ""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple, set)):
        return f"a list of {len(value)}"
    text = repr(value[: _VALUE_LENGTH + 1]) if isinstance(value, str) else _short(value)
    return text if len(text) <= _VALUE_LENGTH else text[:_VALUE_LENGTH] + "…"


def _short(value: Any) -> str:
    """A number as it is, unless writing it out would itself be the attack."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**_VALUE_LENGTH:
        return "a very large number"
    return f"{value}" if isinstance(value, (int, float)) else f"a {type(value).__name__}"

"""What a program said last, found in the end of its output: the last traceback, or native code's own last words."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["last_step", "last_words", "tells_of_memory"]

_LONGEST_CHARS = 16 * 1024
_LOOK_BACK = 200
_NATIVE_LOOK_BACK = 20
# torch puts the rank before each line of a traceback once a process group is there.
_RANK = re.compile(r"^\[rank\d+\]: ?")
_TRACEBACK = "Traceback (most recent call last)"
_CHAIN = ("The above exception was the direct cause", "During handling of the above exception")
_NATIVE = re.compile(
    r"^(terminate called|Fatal Python error|Aborted\b|Segmentation fault|Bus error|Killed\b|\*\*\* Error in|free\(\): )"
    r"|std::bad_alloc|CUDA out of memory|Cannot allocate memory|OOM when allocating|Check failed:"
    r"|(can't|not enough) memory|^MemoryError"
)
_MEMORY = re.compile(
    r"CUDA out of memory|OutOfMemoryError|\b(Array)?MemoryError\b|std::bad_alloc|Cannot allocate memory|OOM when allocating"
    r"|DefaultCPUAllocator: (can't|not enough)|Unable to allocate \d"
)
_STEP = re.compile(r"\bstep[=: ]\s*(\d{1,15})\b", re.IGNORECASE)


def last_words(lines: Sequence[str]) -> str | None:
    """The last traceback with what it was raised from, or native code's last words; whichever came later."""
    texts = [_RANK.sub("", line) for line in lines[-_LOOK_BACK:]]
    for index in range(len(texts) - 1, -1, -1):
        if _TRACEBACK in texts[index]:
            end = _end_of_traceback(texts, index)
            return "\n".join(texts[_start_of_chain(texts, index) : end])[-_LONGEST_CHARS:]
        is_late = index >= len(texts) - _NATIVE_LOOK_BACK
        if is_late and _NATIVE.search(texts[index]) and not _in_traceback(texts, index):
            start = index
            while start > 0 and _NATIVE.search(texts[start - 1]):
                start -= 1
            return "\n".join(texts[start : index + 3])[-_LONGEST_CHARS:]
    return None


def tells_of_memory(text: str) -> bool:
    """Whether a text tells of exhausted memory, the host's or a GPU's."""
    return _MEMORY.search(text) is not None


def last_step(lines: Sequence[str]) -> int | None:
    """The last step that the program printed, as `step=3` or `step 3`."""
    for line in reversed(lines):
        found = _STEP.search(line)
        if found:
            return int(found[1])
    return None


def _end_of_traceback(texts: list[str], start: int) -> int:
    """Behind the line with the exception itself, the first that is not set in."""
    end = start + 1
    while end < len(texts) and texts[end].startswith((" ", "\t", "+", "|")):
        end += 1
    return min(end + 1, len(texts))


def _in_traceback(texts: list[str], index: int) -> bool:
    """Whether a line is the last one of a traceback: an exception's own message."""
    for start in range(index - 1, -1, -1):
        if _TRACEBACK in texts[start]:
            return _end_of_traceback(texts, start) > index
    return False


def _start_of_chain(texts: list[str], start: int) -> int:
    """Where the first of the tracebacks starts that led to the one at `start`."""
    while start >= 3 and texts[start - 2].startswith(_CHAIN):
        for earlier in range(start - 3, -1, -1):
            if _TRACEBACK in texts[earlier]:
                start = earlier
                break
        else:
            return start
    return start

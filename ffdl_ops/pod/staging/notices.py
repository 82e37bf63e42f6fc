"""What the side-car has to tell the program's owner: the launcher puts it into the first learner's log."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ffdl_ops.pod.staging.files import open_regular
from ffdl_ops.pod.staging.spec import StageSpec

__all__ = ["tell_unnamed"]

_MOST_BYTES = 32 * 1024


def tell_unnamed(spec: StageSpec, names: Sequence[str]) -> None:
    """Tell of files that no object can be named after, each once in an attempt.

    :param names: with escapes in place of what is not UTF-8.
    """
    if not names:
        return
    path = os.path.join(spec.staging_dir, "notices.log")
    try:
        with open_regular(path) as file:
            told = set(file.read(_MOST_BYTES).decode("utf-8", "replace").splitlines())
    except OSError:
        told = set()
    lines = [_line(spec, name) for name in names]
    news = "".join(f"{line}\n" for line in lines if line not in told)
    if not news or sum(map(len, told)) > _MOST_BYTES // 2:
        return
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o644), "a", encoding="utf-8") as file:
            file.write(news[: _MOST_BYTES // 2])
    except OSError:
        pass  # the helper's own log says it too


def _line(spec: StageSpec, name: str) -> str:
    shown = name if name.isprintable() else ascii(name)
    return (
        f"checkpoint: {shown} can't be stored, since its name is not UTF-8: what belongs to it is in no checkpoint "
        f"(attempt {spec.attempt}); rename it, or save under another name. The training goes on."
    )

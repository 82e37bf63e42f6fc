"""Container paths to real ones: there is no mount namespace, so texts that name a mount are rewritten."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

__all__ = ["expand", "translator"]

_REFERENCE = re.compile(r"\$(\$|\(([A-Za-z_.-][A-Za-z0-9_.-]*)\))")


def translator(mounts: Mapping[str, str]) -> Callable[[str], str]:
    """What rewrites mount paths inside a text, the longest first.

    A path is a mount's when it begins where no longer path or word does (start of the text, ``=``, ``:``, quotes, a space,
    …, or ``file://``) and ends at the mount's own end or goes on with ``/``: with a mount at /job, ``--dir=/job/x`` is
    rewritten, ``s3://bucket/job/x`` and ``/jobs`` are not.

    :param mounts: real directory by mount path.
    """
    if not mounts:
        return lambda text: text
    paths = {path.rstrip("/") or "/": real for path, real in mounts.items()}
    longest_first = sorted((path for path in paths if path != "/"), key=len, reverse=True)
    if not longest_first:
        return lambda text: text
    names = "|".join(re.escape(path) for path in longest_first)
    pattern = re.compile(rf"(?:(?<=file://)|(?<![\w./~-]))(?:{names})(?=/|[^\w./-]|\.?$|\.(?=\s))")
    return lambda text: pattern.sub(lambda found: paths[found[0]], text)


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by the container's environment as Kubernetes does: ``$$`` is a dollar, unknown names stay."""

    def replace(found: re.Match[str]) -> str:
        if found[1] == "$":
            return "$"
        return values.get(found[2], found[0])

    return _REFERENCE.sub(replace, text)

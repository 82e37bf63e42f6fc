"""A uid for each namespace, so that one tenant's pods can't read another's files or processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["Users", "why_not_isolated"]

_FIRST_UID = 20_000


class Users:
    """Gives each namespace a uid, kept on disk.

    :param path: the file that keeps them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}

    def __call__(self, namespace: str) -> int:
        """The namespace's uid (its gid too)."""
        if namespace not in self._known:
            self._known[namespace] = max(self._known.values(), default=_FIRST_UID - 1) + 1
            temporary = self.path.with_suffix(".tmp")
            temporary.write_text(json.dumps(self._known))
            temporary.replace(self.path)
        return self._known[namespace]


def why_not_isolated() -> str | None:
    """Why pods can't run under users of their own here, or ``None`` when they can."""
    if os.geteuid() != 0:
        return "minicluster does not run as root, so all pods run as the user who started it"

    def drop() -> None:
        os.setgid(_FIRST_UID)
        os.setuid(_FIRST_UID)

    try:
        done = subprocess.run(
            [sys.executable, "-c", "import encodings"],
            preexec_fn=drop,
            capture_output=True,
            timeout=20,
            check=False,
            cwd="/",
        )
        works = done.returncode == 0
    except OSError:
        works = False
    if works:
        return None
    return f"other users can't run {sys.executable} (a folder on its way is closed to them), so all pods run as root"

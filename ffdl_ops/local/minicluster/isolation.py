"""Who a namespace's pods run as, and what those users can reach.

As root, each namespace has a uid of its own. The interpreter, this package and the state directory may lie below a directory
that such a user cannot enter (a checkout or a pyenv below root's private home): then the spawner opens a view of the file
system in which exactly these can be reached. Where the kernel forbids that, pods run as root, and the banner says so.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import ffdl_ops
from ffdl_ops.local.minicluster.store import Store

__all__ = ["FIRST_UID", "Isolation", "closed_directories", "find_isolation"]

FIRST_UID = 20_000


@dataclass
class Isolation:
    """How tenants are kept apart.

    :param by_uid: whether each namespace has a uid of its own.
    :param closed: directories to open in the spawner's view: by the closed one, what is needed below it.
    :param remark: for the banner.
    """

    by_uid: bool
    closed: dict[str, list[str]] = field(default_factory=dict)
    remark: str = ""

    def uid_of(self, store: Store, namespace: str) -> int | None:
        """The uid of a namespace, given out for good when first asked for; ``None`` when there are none."""
        if not self.by_uid:
            return None
        known = store.fact(f"uid/{namespace}")
        if known:
            return int(known)
        uid = int(store.fact("next_uid", str(FIRST_UID)))
        store.set_fact("next_uid", str(uid + 1))
        store.set_fact(f"uid/{namespace}", str(uid))
        return uid


def closed_directories(paths: Iterable[Path]) -> dict[str, list[str]]:
    """The topmost directories on the way to some paths that not everyone may enter, with the paths below each."""
    closed: dict[str, list[str]] = {}
    for path in sorted({path.absolute() for path in paths}):
        for parent in reversed(path.parents):
            if not parent.stat().st_mode & stat.S_IXOTH:
                closed.setdefault(str(parent), []).append(str(path))
                break
    for directory, wanted in closed.items():
        closed[directory] = [one for one in wanted if not any(one.startswith(f"{other}/") for other in wanted)]
    return closed


def _needed(state: Path) -> list[Path]:
    """What a pod's process must reach: interpreter, packages, this package, its own directories."""
    base = Path(sys.base_prefix)
    return [Path(sys.prefix), base, base.resolve(), Path(ffdl_ops.__file__).parent, state]


def find_isolation(state: Path) -> Isolation:
    """What this machine allows."""
    if os.geteuid() != 0:
        return Isolation(False, remark="NOT isolated from each other: minicluster was not started as root")
    closed = closed_directories(_needed(state))
    names = ", ".join(closed)
    if _runs_as_tenant(closed):
        view = f"; a private view opens {names} for them" if closed else ""
        return Isolation(True, closed, f"each namespace has a uid of its own{view}")
    why = f"{names} is closed to other users, and the kernel allows no private view of it (CAP_SYS_ADMIN)"
    return Isolation(
        False,
        remark=f"NOT isolated from each other, pods run as root: other users can't run {sys.executable}"
        f"{': ' + why if closed else ''}. Install where everyone may read",
    )


def _runs_as_tenant(closed: dict[str, list[str]]) -> bool:
    """Whether the interpreter and this package work for a tenant's user, in the view that opens what is closed."""
    spawner = Path(__file__).parent / "runtime" / "spawner.py"
    program = (
        "import sys, os, json; sys.path.insert(0, sys.argv[1]); import spawner; closed = json.loads(sys.argv[2]);"
        "closed and spawner.open_view(closed);"
        f"os.setgroups([]); os.setgid({FIRST_UID}); os.setuid({FIRST_UID});"
        "os.execv(sys.argv[3], [sys.argv[3], '-c', 'import ffdl_ops'])"
    )
    python = shutil.which("python3", path=f"{sys.prefix}/bin") or sys.executable
    argv = [sys.executable, "-I", "-S", "-c", program, str(spawner.parent), json.dumps(closed), python]
    return subprocess.run(argv, capture_output=True, timeout=30, cwd="/", check=False).returncode == 0

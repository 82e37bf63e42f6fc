"""Write each image's requirements.txt: its requirements.in with all that they need, at the lock's versions.

    .venv/bin/python images/pin.py            write images/*/requirements.txt
    .venv/bin/python images/pin.py --check    only say which of them are out of date (exit code 1)

What a package needs is taken from what is installed, so run it in the project's own environment, on the
platform that the images are for (Linux, x86-64, the Python of the images).
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

IMAGES = Path(__file__).parent
LOCK = IMAGES.parent / "requirements.lock"
# Not in the lock, as `pip freeze` leaves them out; a virtual environment of this Python has them from the
# start.
BUILD_TOOLS = frozenset({"pip", "setuptools", "wheel"})
HEADER = "# Written by images/pin.py from requirements.in and the lock; don't edit.\n"


def canonical(name: str) -> str:
    """A package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(lock: Path = LOCK) -> dict[str, str]:
    """The lock: canonical name to its whole ``name==version`` line."""
    lines = (line.strip() for line in lock.read_text().splitlines())
    return {canonical(line.partition("==")[0]): line for line in lines if "==" in line and not line.startswith("#")}


def wanted(folder: Path) -> list[Requirement]:
    """What an image asks for by name."""
    lines = (line.partition("#")[0].strip() for line in (folder / "requirements.in").read_text().splitlines())
    return [Requirement(line) for line in lines if line]


def closure(roots: list[Requirement]) -> set[str]:
    """The canonical names of the packages and of all that they need here."""
    seen: set[tuple[str, str]] = set()
    waiting = [(root.name, extra) for root in roots for extra in ("", *root.extras)]
    while waiting:
        name, extra = waiting.pop()
        if (canonical(name), extra) in seen:
            continue
        seen.add((canonical(name), extra))
        for text in distribution(name).requires or []:
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                waiting += [(need.name, one) for one in ("", *need.extras)]
    return {name for name, _ in seen}


def pinned(folder: Path) -> str:
    """The text of an image's requirements.txt."""
    lock = locked()
    return HEADER + "".join(f"{lock[name]}\n" for name in sorted(closure(wanted(folder)) - BUILD_TOOLS))


def main() -> int:
    """Write the files, or check them."""
    stale = []
    for source in sorted(IMAGES.glob("*/requirements.in")):
        target = source.with_name("requirements.txt")
        text = pinned(source.parent)
        if not target.exists() or target.read_text() != text:
            stale.append(target.relative_to(IMAGES.parent))
            if "--check" not in sys.argv[1:]:
                target.write_text(text)
    for path in stale:
        sys.stdout.write(f"{path}\n")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())

"""Image names, resolved to local environments by a table; a name that is in none can't be pulled."""

from __future__ import annotations

import fnmatch
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

__all__ = ["Image", "Images"]


@dataclass(frozen=True)
class Image:
    """A local environment: what a container of this image finds in its environment variables."""

    env: dict[str, str]


class Images:
    """The table.

    :param path: a YAML file: `images: {pattern: {path_prepend: [...], env: {...}}}`.
    """

    def __init__(self, path: Path) -> None:
        self._table = yaml.safe_load(path.read_text())["images"]

    def find(self, name: str) -> Image | None:
        """The environment of an image, or ``None``."""
        for pattern, entry in self._table.items():
            if fnmatch.fnmatchcase(name, pattern):
                prepend = [part.format(python_prefix=sys.prefix) for part in entry.get("path_prepend") or []]
                path = os.pathsep.join([*prepend, "/usr/local/bin", "/usr/bin", "/bin"])
                return Image({"PATH": path, "LANG": "C.UTF-8", **(entry.get("env") or {})})
        return None

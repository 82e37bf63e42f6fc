"""The embedded cluster's image table: which names can be "pulled", and what local environment each stands for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ffdl_ops.adapters.configfile import read_configuration
from ffdl_ops.core.errors import UserError

__all__ = ["SYSTEM_PATH", "Image", "Images"]

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where a container finds programs behind its image's own."""

_FIELDS = {"path_prepend", "env", "command"}


@dataclass(frozen=True)
class Image:
    """What a container of an image gets.

    :param pattern: the pattern that matched its name.
    :param path_prepend: directories put before the PATH.
    :param env: environment of the image; the pod's own comes over it.
    :param command: what runs when the pod names no command.
    """

    pattern: str
    path_prepend: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()

    def environment(self) -> dict[str, str]:
        """What a process in a container of this image has for its PATH and from its image."""
        return {"PATH": ":".join([*self.path_prepend, SYSTEM_PATH]), **self.env}


class Images:
    """The table, in the file's order: the first pattern that matches a name wins.

    :param path: a YAML file: pattern → {path_prepend: [...], env: {...}, command: [...]}; ``{python_prefix}`` stands for the
        prefix of minicluster's own interpreter.
    :raises UserError: when the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        loaded = read_configuration(path, "The image table")
        if not isinstance(loaded, Mapping) or not isinstance(loaded.get("images"), Mapping):
            raise UserError(f"The image table {path} must have a mapping `images`: name pattern -> settings.")
        self.table = [_image(path, str(pattern), value or {}) for pattern, value in loaded["images"].items()]

    def find(self, name: str) -> Image | None:
        """The image of a name, or ``None`` when it can't be pulled. A name without tag has the tag ``latest``."""
        name, _, _ = name.partition("@")
        if ":" not in name.rpartition("/")[2]:
            name += ":latest"
        bare = name.removeprefix("docker.io/").removeprefix("library/")
        for image in self.table:
            if fnmatchcase(name, image.pattern) or fnmatchcase(bare, image.pattern):
                return image
        return None


def _image(path: Path, pattern: str, value: Mapping[str, Any]) -> Image:
    if not isinstance(value, Mapping):
        raise UserError(f"{path}: image {pattern!r} must have a mapping of settings, not {value!r}.")
    unknown = set(value) - _FIELDS
    if unknown:
        raise UserError(f"{path}: image {pattern!r} has unknown settings {sorted(unknown)}; known: {sorted(_FIELDS)}.")
    for name, kind in (("path_prepend", list), ("command", list), ("env", Mapping)):
        if value.get(name) is not None and not isinstance(value[name], kind):
            words = "a list" if kind is list else "a mapping"
            raise UserError(f"{path}: image {pattern!r}: {name} must be {words}, not {value[name]!r}.")
    fill = lambda text: str(text).replace("{python_prefix}", sys.prefix)  # noqa: E731
    return Image(
        pattern,
        tuple(fill(entry) for entry in value.get("path_prepend") or ()),
        {str(name): fill(text) for name, text in (value.get("env") or {}).items()},
        tuple(str(entry) for entry in value.get("command") or ()),
    )

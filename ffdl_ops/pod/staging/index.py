"""What the newest uploaded generation holds, as the files on this volume: so that nothing is uploaded twice."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from ffdl_ops.adapters.storage.checkpoints import Generation
from ffdl_ops.pod.staging.files import read_json, write_json
from ffdl_ops.pod.staging.scan import FileState
from ffdl_ops.pod.staging.spec import StageSpec

__all__ = ["CheckpointIndex", "IndexEntry", "load_index", "save_index"]


@dataclass(frozen=True)
class IndexEntry:
    """A file on the volume and the object that holds its content."""

    size: int
    mtime_ns: int
    inode: int
    sha256: str
    key: str

    @property
    def identity(self) -> tuple[int, int, int]:
        """As :attr:`FileState.identity`."""
        return self.size, self.mtime_ns, self.inode


@dataclass(frozen=True)
class CheckpointIndex:
    """The newest complete generation that was uploaded from here or restored to here.

    :param generation: its number; 0 when there is none.
    :param last_number: the highest number that was ever begun: a number is not used twice.
    """

    generation: int = 0
    last_number: int = 0
    files: Mapping[str, IndexEntry] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, generation: Generation, files: Mapping[str, FileState], last_number: int) -> CheckpointIndex:
        """The index of a generation whose files are on the volume."""
        entries = {
            one.path: IndexEntry(*files[one.path].identity, sha256=one.sha256, key=one.key)
            for one in generation.stored
            if one.path in files
        }
        return cls(generation.number, max(last_number, generation.number), entries, dict(generation.links))

    def beginning(self, number: int) -> CheckpointIndex:
        """The same, with a number marked as used."""
        return replace(self, last_number=max(self.last_number, number))


def load_index(spec: StageSpec) -> CheckpointIndex:
    """Read the index; an empty one when there is none or it is damaged."""
    raw = read_json(_path(spec))
    try:
        files = {path: IndexEntry(**entry) for path, entry in raw["files"].items()}
        return CheckpointIndex(int(raw["generation"]), int(raw["last_number"]), files, dict(raw["links"]))
    except (TypeError, KeyError, ValueError, AttributeError):
        return CheckpointIndex()


def save_index(spec: StageSpec, index: CheckpointIndex) -> None:
    """Write the index, whole or not at all."""
    write_json(_path(spec), asdict(index))


def _path(spec: StageSpec) -> str:
    return os.path.join(spec.staging_dir, "checkpoint-index.json")

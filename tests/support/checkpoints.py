"""A job's checkpoint directory in a test's hands, and a side-car's eye on it."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from ffdl_ops.adapters.storage.checkpoints import newest_complete
from ffdl_ops.pod.staging.checkpoints import CheckpointTaker
from ffdl_ops.pod.staging.spec import StageSpec, load_spec
from tests.support.s3 import MemoryStore

__all__ = ["Bench", "checkpoint", "write"]


class Bench:
    """A job's directories, a store in memory, a clock that the test moves, and a side-car's eye on them."""

    def __init__(self, root: Path, *, learners: int = 1, per_rank: bool = False, keep: int = 3) -> None:
        raw = {
            "job_id": "job-1", "tenant": "a", "attempt": 1, "bucket": "b", "learners": learners, "job_dir": str(root),
            "checkpoint": {"interval_s": 2, "per_rank": per_rank, "keep": keep},
        }  # fmt: skip
        self.spec: StageSpec = load_spec(json.dumps(raw))
        self.root = root / "checkpoints"
        self.logs = root / "logs" / "attempt-1"
        for path in (self.root, self.logs, root / "state" / "staging"):
            path.mkdir(parents=True)
        self.store = MemoryStore()
        self.now = 0.0
        self.taker = self.another()

    def another(self, **changes: Any) -> CheckpointTaker:
        return CheckpointTaker(replace(self.spec, **changes), self.store, clock=lambda: self.now)

    def look(self, times: int = 1, every_s: float = 2.0) -> list[int]:
        """Generations taken by so many looks."""
        taken = []
        for _ in range(times):
            self.now += every_s
            if (one := self.taker.look()) is not None:
                taken.append(one.generation)
        return taken

    def paths(self) -> list[str]:
        """The files of the newest complete generation."""
        newest = newest_complete(self.store, "b", "job-1")
        return sorted(one.path for one in newest.stored) if newest else []

    def content(self, path: str) -> bytes:
        """A file of the newest complete generation."""
        newest = newest_complete(self.store, "b", "job-1")
        assert newest is not None
        return self.store.objects[next(one.key for one in newest.stored if one.path == path)]

    def report(self, exit_code: int, rank: int = 0, **more: Any) -> None:
        """A learner's exit report."""
        text = json.dumps({"exit_code": exit_code, "signal": None, "oom": False} | more)
        (self.logs / f"learner-{rank + 1}.exit.json").write_text(text)


def write(path: Path, content: bytes) -> None:
    """Write as a plain program does: in place, from the beginning."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(content)


def checkpoint(step: int) -> bytes:
    """What a `torch.save` would leave: a zip archive."""
    import io

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("archive/data.pkl"), b"weights %d " % step * 500)
        archive.writestr(zipfile.ZipInfo("archive/version"), b"3")
    return buffer.getvalue()

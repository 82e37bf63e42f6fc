"""The arm `bare`: the program as a process of this machine, on the training's CPUs, with what its image would give it.

The environment is that which the embedded cluster's image table gives the framework's image, so that the same interpreter runs
with the same variables; the data is a copy of the same objects. Its session is its own; it ends with the measuring process.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ffdl_ops.adapters.images import Images
from ffdl_ops.core.errors import TemporaryError, UserError
from ffdl_ops.lab.bench.overhead.arms import Setting, environment_of

if TYPE_CHECKING:
    from ffdl_ops.adapters.settings import Settings
    from ffdl_ops.lab.bench.overhead.records import Arm

__all__ = ["BareArm", "bare_environment", "staged"]

_END_S = 60.0
_LOOK_S = 0.05
_TAIL = 40
# Pins itself, to die with its parent, before it becomes the program; with the standard library alone.
_BECOME = """
import ctypes, json, os, signal, sys
cpus, parent, environment, command = json.loads(sys.argv[1])
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != parent:
    sys.exit(75)
if cpus:
    os.sched_setaffinity(0, cpus)
os.execve("/bin/sh", ["/bin/sh", "-c", command], environment)
"""


def bare_environment(settings: Settings, image: str, own: Mapping[str, str], home: Path) -> dict[str, str]:
    """The environment of a process that stands for a container of an image; nothing of this process's own is in it.

    :param own: the program's own variables.
    :param home: an empty directory for HOME and TMPDIR.
    :raises UserError: when the image table has no such image.
    """
    found = Images(settings.config / "images.yaml").find(image)
    if found is None:
        raise UserError(f"{settings.config / 'images.yaml'} has no pattern for the image {image!r}: add one.")
    base = {
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "USER": "pod",
        "LOGNAME": "pod",
    }
    return {**base, **found.environment(), "CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": "1", **own}


def staged(setting: Setting) -> Path | None:
    """A copy of the data set on this machine, made once and kept by its content; ``None`` without data.

    :raises FfdlError: when there is no such data, or it can't be read.
    """
    if setting.data is None:
        return None
    from ffdl_ops.adapters.storage.datasets import dataset_of
    from ffdl_ops.adapters.storage.store import ObjectStore
    from ffdl_ops.adapters.storage.transfer import download_dataset

    store = ObjectStore(setting.settings.store_config(setting.tenant))
    bucket, _, prefix = setting.data.partition("/")
    data = dataset_of(store, bucket, prefix)
    place = setting.settings.home / "bench" / "overhead" / "data" / data.key
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix="partial-", dir=place.parent))
        try:
            download_dataset(store, data, str(partial))
            partial.chmod(0o755)
            partial.replace(place)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return place


@dataclass
class BareArm:
    """The program as a process.

    :param setting: of the pair.
    :param arm: `Arm.BARE` or `Arm.BARE_AGAIN`.
    :param rank: of several learners, which one.
    """

    setting: Setting
    arm: Arm
    rank: int = 0
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def _directory(self) -> Path:
        return (
            self.setting.settings.home / "bench" / "overhead" / "bare" / f"{self.setting.name}-{self.arm}-{self.rank}"
        )

    @property
    def where(self) -> dict[str, str]:
        """What finds it again."""
        return {"pid": str(self.process.pid), "log": str(self._directory / "log")}

    def start(self, command: str, environment: dict[str, str] | None = None) -> None:
        """Start it.

        :param environment: of this learner alone.
        """
        setting, directory = self.setting, self._directory
        (directory / "home").mkdir(parents=True, exist_ok=True)
        data = staged(setting)
        own = {**environment_of(setting.configuration), **(environment or {})}
        own["DATA_DIR"] = str(data or directory / "no-data")
        variables = bare_environment(setting.settings, setting.image, own, directory / "home")
        told = json.dumps([list(setting.training or ()), os.getpid(), variables, command])
        with (directory / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BECOME, told], cwd=directory / "home", env={},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        setting.started.note_process(self.process.pid)

    def problem(self) -> str | None:
        """Whether it has ended."""
        if not self._has_ended():
            return None
        self.kill()
        return f"it has ended with exit code {self.process.returncode}"

    def pause(self) -> None:
        """Stop its session's processes."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on."""
        self._signal(signal.SIGCONT)

    def pids(self) -> list[int]:
        """The process and all below it."""
        import psutil

        with contextlib.suppress(psutil.Error):
            return [self.process.pid, *(one.pid for one in psutil.Process(self.process.pid).children(recursive=True))]
        return []

    def log(self) -> str:
        """The end of what it has printed."""
        return "\n".join(self.whole_log()[-_TAIL:])

    def whole_log(self) -> list[str]:
        """All lines."""
        try:
            return (self._directory / "log").read_text(errors="replace").splitlines()
        except OSError:
            return []

    def uploaded(self) -> int:
        """None."""
        return 0

    def await_end(self) -> None:
        """Wait until it has ended by itself.

        :raises TemporaryError: when it does not, or ends badly; then its session is killed.
        """
        deadline = time.monotonic() + _END_S
        try:
            while not self._has_ended():
                if time.monotonic() > deadline:
                    raise TemporaryError(f"the program has not ended within {_END_S:.0f} s")
                time.sleep(_LOOK_S)
        finally:
            self.kill()
        if self.process.returncode:
            raise TemporaryError(f"the program has ended with exit code {self.process.returncode}")

    def kill(self) -> None:
        """End all its processes at once; its log stays."""
        if not hasattr(self, "process"):
            return  # it was never started
        if self.process.returncode is None:  # not reaped: its number is no stranger's
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self._directory / "home", ignore_errors=True)

    def _has_ended(self) -> bool:
        """Whether it has, leaving it to be reaped with its group."""
        if self.process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _signal(self, number: int) -> None:
        if self.process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, number)

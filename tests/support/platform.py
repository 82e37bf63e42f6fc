"""The whole embedded platform for tests: in a directory of its own, on free ports, gone afterwards even if pytest is killed.

Run as a program it is the guard: it waits until its standard input ends, which it does however the test process ends, and
then stops the platform and removes its directory (TEST_KEEP=1 keeps it).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from ffdl_ops.adapters.ports import free_ports
from ffdl_ops.adapters.settings import Settings, config_dir, home_dir
from ffdl_ops.local.services.environment import DAG_FOLDERS
from ffdl_ops.local.services.stack import Stack

__all__ = ["FFDL", "REPOSITORY", "Platform", "new_platform", "running_platform"]

REPOSITORY = Path(__file__).resolve().parents[2]
FFDL = (sys.executable, "-c", "from ffdl_ops.cli.main import main; main()")
_OURS = ("FFDL_", "AIRFLOW_", "MLFLOW_", "KUBECONFIG")
_SERVICES = ("airflow", "mlflow", "s3", "minicluster")


@dataclass(frozen=True)
class Platform:
    """One platform, up or down.

    :param home: its FFDL_HOME.
    :param config: its FFDL_CONFIG_DIR.
    :param dag_folders: what its Airflow reads.
    """

    home: Path
    config: Path
    dag_folders: tuple[Path, ...] = DAG_FOLDERS

    @property
    def settings(self) -> Settings:
        """The settings as the platform's own programs see them."""
        return Settings.load(self.home, self.config)

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which `ffdl`, run as a program, works on this platform."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        return {**kept, "FFDL_HOME": str(self.home), "FFDL_CONFIG_DIR": str(self.config)}

    @property
    def stack(self) -> Stack:
        """Its services, as the configuration says now."""
        return Stack(self.settings, dag_folders=self.dag_folders)

    def ffdl(self, *arguments: str, timeout_s: float = 300.0) -> subprocess.CompletedProcess[str]:
        """Run `ffdl` on this platform."""
        return subprocess.run(
            [*FFDL, *arguments], env=self.environment, cwd=REPOSITORY,
            capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip


@contextlib.contextmanager
def new_platform(dag_folders: tuple[Path, ...] = DAG_FOLDERS) -> Iterator[Platform]:
    """A platform that nothing of is up yet; what of it is up at the end is stopped, and its directory removed."""
    for name in [name for name in os.environ if name.startswith("FFDL_PORT_")]:
        del os.environ[name]  # the developer's own platform is there
    home = Path(tempfile.mkdtemp(prefix="ffdl-platform-"))
    home.chmod(0o711)  # PostgreSQL and the pods have users of their own
    shutil.copytree(REPOSITORY / "config", home / "config")
    path = home / "config" / "platform.yaml"
    content = yaml.safe_load(path.read_text())
    content["ports"] = dict(zip(_SERVICES, free_ports(len(_SERVICES)), strict=True))
    path.write_text(yaml.safe_dump(content))
    platform = Platform(home, home / "config", dag_folders)
    guard = subprocess.Popen(
        [sys.executable, "-m", "tests.support.platform", str(home)], env=platform.environment, cwd=REPOSITORY,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        yield platform
    finally:
        if guard.stdin is not None:
            guard.stdin.close()
        guard.wait(timeout=120)


@contextlib.contextmanager
def running_platform(dag_folders: tuple[Path, ...] = DAG_FOLDERS) -> Iterator[Platform]:
    """A platform that is up for the block.

    With FFDL_TEST_RUNNING set it is the one of FFDL_HOME, which is left up: quicker while developing.
    """
    if os.environ.get("FFDL_TEST_RUNNING"):
        yield Platform(home_dir(), config_dir(), dag_folders)
        return
    with new_platform(dag_folders) as platform:
        platform.stack.up()
        yield platform


def _guard(home: Path) -> None:
    sys.stdin.buffer.read()
    with contextlib.suppress(Exception):
        Platform(home, home / "config").stack.down()
    if not os.environ.get("TEST_KEEP"):
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    _guard(Path(sys.argv[1]))

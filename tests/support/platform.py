"""A whole embedded platform for a test session: on free ports, in a directory of its own, gone afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ffdl_ops.adapters.settings import Settings
from ffdl_ops.local.services.seed import seed_digits
from ffdl_ops.local.services.stack import Stack

__all__ = ["Platform", "free_ports", "running_platform"]

SERVICES = ("airflow", "mlflow", "s3", "minicluster")


@dataclass(frozen=True)
class Platform:
    """A platform that is up.

    :param settings: as any program of it sees them.
    :param environment: the variables that lead a child process to it.
    """

    settings: Settings
    stack: Stack
    environment: dict[str, str]

    @property
    def home(self) -> Path:
        """Its FFDL_HOME."""
        return self.settings.home


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


@contextmanager
def running_platform() -> Iterator[Platform]:
    """Start a platform, seed its data, stop it; its log stays behind when FFDL_TEST_KEEP is set.

    With FFDL_TEST_RUNNING set, the platform that is up (by FFDL_HOME) is used and left up: quicker while developing.
    """
    if os.environ.get("FFDL_TEST_RUNNING"):
        settings = Settings.load()
        yield Platform(settings, Stack(settings), {})
        return
    home = Path(tempfile.mkdtemp(prefix="ffdl-test-"))
    home.chmod(0o711)
    ports = dict(zip(SERVICES, free_ports(len(SERVICES)), strict=True))
    environment = {"FFDL_HOME": str(home), **{f"FFDL_PORT_{name.upper()}": str(port) for name, port in ports.items()}}
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    stack = Stack(Settings.load())
    try:
        stack.up()
        settings = Settings.load()
        for tenant in settings.tenants:
            stack.wait_for_dag(f"train__{tenant.name}")
            seed_digits(settings, tenant.name)
        yield Platform(settings, stack, environment)
    finally:
        stack.down()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if not os.environ.get("FFDL_TEST_KEEP"):
            shutil.rmtree(home, ignore_errors=True)

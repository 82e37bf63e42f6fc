"""Data sets that nobody uses leave the cache, those of living jobs never."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from ffdl_ops.adapters.storage.errors import BadSpec
from ffdl_ops.pod.staging.eviction import make_room, mark_used
from ffdl_ops.pod.staging.files import locked
from ffdl_ops.pod.staging.spec import KEY_SHOWN, StageSpec, load_spec

DAY_S = 86_400.0
SIZE = 1000
NEW, OLD, OLDER, OLDEST = (letter * 64 for letter in "0abc")
AGES = {OLD: 1 * DAY_S, OLDER: 2 * DAY_S, OLDEST: 3 * DAY_S}


class Cache:
    """A cache directory with three data sets of the same size, unused for one, two and three days."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "cache").mkdir()
        for key, age_s in AGES.items():
            self.put(key, age_s)

    def put(self, key: str, age_s: float) -> None:
        place = self.root / "cache" / key
        place.mkdir(exist_ok=True)
        (place / "data.bin").write_bytes(b"x" * SIZE)
        marker = place.with_name(f"{key}.complete")
        marker.write_text(json.dumps({"key": key, "files": {"data.bin": SIZE}}))
        os.utime(marker, (time.time() - age_s,) * 2)

    def keys(self) -> set[str]:
        """The data sets that are there, each with its list of files."""
        found = {key for key in AGES if (self.root / "cache" / key).exists()}
        assert found == {key for key in AGES if (self.root / "cache" / f"{key}.complete").exists()}
        return found

    def spec(self, key: str = NEW, **keep: Any) -> StageSpec:
        keep = {"max_bytes": 0, "max_age_s": 0, "in_use": [], "as_of": time.time()} | keep
        data = {"bucket": "b", "prefix": "p", "key": key, "cache_dir": str(self.root / "cache"), "keep": keep}
        raw = {"job_id": "job-1", "tenant": "a", "bucket": "b", "job_dir": str(self.root / "job"), "data": data}
        return load_spec(json.dumps(raw), "fetch")

    def make_room(self, coming: int = 0, key: str = NEW, **keep: Any) -> set[str]:
        """Which data sets were removed, as they say themselves and as the directory does."""
        spec = self.spec(key, **keep)
        assert spec.data and spec.data.keep
        before = self.keys()
        told = make_room(spec, spec.data, spec.data.keep, coming)
        gone = before - self.keys()
        assert {key[:KEY_SHOWN] for key in gone} == set(told.keys)
        assert told.bytes == SIZE * len(gone)
        assert not list((self.root / "cache").glob("*.partial-*"))
        return gone


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


def test_the_least_recently_used_go_until_the_new_one_fits(cache: Cache) -> None:
    assert cache.make_room(coming=SIZE, max_bytes=3 * SIZE) == {OLDEST}


def test_as_many_go_as_must(cache: Cache) -> None:
    assert cache.make_room(coming=2 * SIZE, max_bytes=3 * SIZE) == {OLDEST, OLDER}


def test_what_was_unused_for_too_long_goes_although_there_is_room(cache: Cache) -> None:
    assert cache.make_room(max_age_s=1.5 * DAY_S) == {OLDEST, OLDER}


def test_without_limits_nothing_goes(cache: Cache) -> None:
    assert cache.make_room(coming=10**15) == set()


def test_what_a_living_job_reads_stays_and_the_log_says_so(cache: Cache, capsys: pytest.CaptureFixture[str]) -> None:
    living = [OLDEST[:KEY_SHOWN], OLDER[:KEY_SHOWN]]
    assert cache.make_room(coming=3 * SIZE, max_bytes=SIZE, max_age_s=1, in_use=living) == {OLD}
    assert "the rest of it is in use" in capsys.readouterr().out


def test_what_a_job_began_to_use_after_the_list_was_made_stays(cache: Cache) -> None:
    """The list of living jobs is as old as the helper; a clock may differ by some minutes, too."""
    used = cache.spec(OLDEST)
    as_of = time.time()
    assert used.data
    mark_used(used.data)
    assert cache.make_room(coming=SIZE, max_bytes=SIZE, as_of=as_of) == {OLD, OLDER}
    cache.put(OLD, 60)
    assert cache.make_room(coming=SIZE, max_bytes=SIZE, as_of=as_of) == set()


def test_what_somebody_is_just_staging_or_beginning_to_use_stays(cache: Cache) -> None:
    with locked(str(cache.root / "cache" / ".locks" / f"{OLDEST}.lock")):
        assert cache.make_room(coming=SIZE, max_bytes=3 * SIZE) == {OLDER}


def test_the_jobs_own_data_set_stays(cache: Cache) -> None:
    assert cache.make_room(key=OLDEST, max_bytes=SIZE, max_age_s=1) == {OLD, OLDER}


def test_what_is_no_data_set_is_not_touched(cache: Cache) -> None:
    strange = cache.root / "cache" / "notes.complete"
    strange.write_text("[]")
    (cache.root / "cache" / f"{'d' * 64}.complete").write_text("not JSON")
    os.utime(strange, (0, 0))
    assert cache.make_room(max_age_s=1) == {OLD, OLDER, OLDEST}
    assert strange.exists()


@pytest.mark.parametrize(
    ("change", "field"), [({"max_bytes": -1}, "data.keep.max_bytes"), ({"in_use": "abc"}, "data.keep.in_use")]
)
def test_a_wrong_limit_is_refused_by_field(cache: Cache, change: dict[str, Any], field: str) -> None:
    with pytest.raises(BadSpec, match=field):
        cache.spec(**change)

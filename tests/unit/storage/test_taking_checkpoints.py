"""A checkpoint is taken when all of it is finished, and what is half-written is never taken for whole."""

from __future__ import annotations

import json
import os
import re
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from ffdl_ops.adapters.storage.checkpoints import list_generations, newest_complete
from ffdl_ops.adapters.storage.errors import Unreachable
from tests.support.checkpoints import Bench, checkpoint, write


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_plainly_written_file_is_taken_at_the_second_look(bench: Bench) -> None:
    write(bench.root / "ckpt-5.pt", checkpoint(5))
    assert bench.look() == []
    assert bench.look() == [1]
    assert bench.content("ckpt-5.pt") == checkpoint(5)
    assert bench.look(3) == []


def test_a_file_that_arrived_by_rename_is_taken_at_the_first_look(bench: Bench) -> None:
    write(bench.root / "ckpt.pt.tmp", checkpoint(5))
    time.sleep(0.02)
    os.replace(bench.root / "ckpt.pt.tmp", bench.root / "ckpt.pt")
    bench.now += 2
    taken = bench.taker.look()
    assert taken is not None and bench.paths() == ["ckpt.pt"]


def test_a_marker_makes_a_file_complete_unless_the_file_is_newer(bench: Bench) -> None:
    write(bench.root / "weights.dat", b"1")
    write(bench.root / "weights.dat.complete", b"")
    assert bench.look() == [1]
    time.sleep(0.02)
    write(bench.root / "weights.dat", b"22")
    assert bench.look() == []


def test_unfinished_names_are_never_taken(bench: Bench) -> None:
    for name in (".a.pt", "b.pt.tmp", "c.part", "d.pt~"):
        write(bench.root / name, checkpoint(1))
    assert bench.look(5) == [] and bench.store.objects == {}


@pytest.mark.parametrize("cut", [0, 10, 1000, -1])
def test_a_half_written_torch_save_is_never_taken_however_long_it_rests(bench: Bench, cut: int) -> None:
    write(bench.root / "ckpt.pt", checkpoint(5)[:cut])
    assert bench.look(100) == []
    bench.report(137, signal=9)
    assert bench.taker.take_last() is None
    assert bench.store.objects == {}


def test_the_generation_waits_for_a_file_that_is_being_written(bench: Bench) -> None:
    write(bench.root / "model.pt", checkpoint(5))
    write(bench.root / "optimizer.pt", checkpoint(5)[:500])
    assert bench.look(5) == []
    write(bench.root / "optimizer.pt", checkpoint(5))
    assert bench.look(2) == [1]
    assert bench.paths() == ["model.pt", "optimizer.pt"]


def test_a_kill_inside_an_overwrite_leaves_the_older_generation_the_newest(bench: Bench) -> None:
    write(bench.root / "model.pt", checkpoint(5))
    write(bench.root / "optimizer.pt", checkpoint(5))
    assert bench.look(2) == [1]
    write(bench.root / "optimizer.pt", checkpoint(6))
    write(bench.root / "model.pt", checkpoint(6)[:700])
    bench.report(137, signal=9)
    assert bench.taker.take_last() is None
    assert bench.content("model.pt") == bench.content("optimizer.pt") == checkpoint(5)


def test_the_whole_files_are_not_lost_when_only_the_newest_is_cut_off(bench: Bench) -> None:
    write(bench.root / "ckpt-5.pt", checkpoint(5))
    write(bench.root / "ckpt-6.pt", checkpoint(6)[:700])
    taken = bench.taker.take_last()
    assert taken is not None and taken.left_out == ("ckpt-6.pt",)
    assert bench.paths() == ["ckpt-5.pt"]


def test_what_belongs_to_a_cut_off_file_is_left_out_with_it(bench: Bench) -> None:
    write(bench.root / "step-5/model.pt", checkpoint(5))
    write(bench.root / "step-5/optimizer.pt", checkpoint(5))
    write(bench.root / "step-6/model.pt", checkpoint(6)[:700])
    write(bench.root / "step-6/optimizer.pt", checkpoint(6))
    taken = bench.taker.take_last()
    assert taken is not None and taken.step == 5
    assert bench.paths() == ["step-5/model.pt", "step-5/optimizer.pt"]


def test_an_unknown_format_written_just_before_a_crash_is_not_trusted_but_an_older_one_is(bench: Bench) -> None:
    write(bench.root / "ckpt-5.dat", b"x" * 100)
    assert bench.look(2) == [1]
    write(bench.root / "ckpt-6.dat", b"x" * 50)
    bench.report(1)
    assert bench.taker.take_last() is None
    bench.report(0)
    assert bench.taker.take_last() is not None
    assert bench.paths() == ["ckpt-5.dat", "ckpt-6.dat"]


def test_a_file_left_by_a_crashed_rank_is_not_trusted_while_the_others_still_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, learners=2)
    write(bench.root / "state.dat", b"x" * 50)
    bench.report(1, rank=1)
    assert bench.look(5) == []


def test_only_what_changed_is_uploaded_again_and_every_generation_is_whole(bench: Bench) -> None:
    write(bench.root / "ckpt-1.pt", checkpoint(1))
    bench.look(2)
    write(bench.root / "ckpt-2.pt", checkpoint(2))
    bench.store.written.clear()
    assert bench.look(2) == [2]
    assert [key.rpartition("/")[2] for key in bench.store.written] == ["ckpt-2.pt", "MANIFEST.json"]
    newest = newest_complete(bench.store, "b", "job-1")
    assert newest is not None and newest.step == 2
    assert {one.path: re.findall("gen-0*([0-9]+)", one.key) for one in newest.stored} == {
        "ckpt-1.pt": ["1"],
        "ckpt-2.pt": ["2"],
    }


def test_old_generations_go_but_what_a_kept_one_names_stays(tmp_path: Path) -> None:
    bench = Bench(tmp_path, keep=2)
    write(bench.root / "base.pt", checkpoint(0))
    for step in range(1, 6):
        write(bench.root / "ckpt.pt", checkpoint(step))
        assert bench.look(2) == [step]
    assert [one.number for one in list_generations(bench.store, "b", "job-1") if one.complete] == [4, 5]
    assert bench.content("base.pt") == checkpoint(0)
    assert not any("gen-000002" in key or "gen-000003" in key for key in bench.store.objects)


def test_an_interrupted_upload_is_never_seen_and_its_number_never_used_again(bench: Bench) -> None:
    write(bench.root / "a.pt", checkpoint(1))
    write(bench.root / "b.pt", checkpoint(1))
    bench.store.failing = lambda key: Unreachable("down") if "MANIFEST" in key else None
    for _ in range(3):
        bench.now += 2
        try:
            bench.taker.look()
        except Unreachable:
            continue
    assert newest_complete(bench.store, "b", "job-1") is None
    used = {re.findall("gen-0*([0-9]+)", key)[0] for key in bench.store.objects}
    bench.store.failing = lambda key: None
    bench.taker = bench.another()
    (number,) = bench.look(2)
    assert str(number) not in used and used
    assert bench.paths() == ["a.pt", "b.pt"] and bench.content("b.pt") == checkpoint(1)


def test_an_upload_goes_on_after_an_outage_without_sending_a_file_twice(bench: Bench) -> None:
    write(bench.root / "a.pt", checkpoint(1))
    bench.look()
    bench.store.failing = lambda key: Unreachable("down") if "MANIFEST" in key else None
    with pytest.raises(Unreachable):
        bench.look()
    bench.store.failing = lambda key: None
    assert bench.look() != []
    assert sum(key.endswith("a.pt") for key in bench.store.written) == 1
    assert bench.content("a.pt") == checkpoint(1)


def test_a_file_rewritten_while_it_is_uploaded_is_discarded(bench: Bench) -> None:
    write(bench.root / "model.pt", checkpoint(1))
    bench.look()

    def rewrite(key: str) -> None:
        if key.endswith("model.pt") and len(bench.store.written) == 0:
            write(bench.root / "model.pt", checkpoint(2))

    bench.store.failing = rewrite
    assert bench.look() == []
    assert newest_complete(bench.store, "b", "job-1") is None
    assert len(bench.look(2)) == 1
    assert bench.content("model.pt") == checkpoint(2)


def test_a_checkpoint_rewritten_all_the_time_does_not_wait_for_ever(bench: Bench) -> None:
    taken = []
    for step in range(40):
        write(bench.root / "model.pt", checkpoint(step))
        taken += bench.look()
        if taken:
            break
    assert taken == [1] and 10 < step < 20
    assert bench.content("model.pt") == checkpoint(step)


def test_a_log_that_grows_all_the_time_neither_blocks_checkpoints_nor_makes_any(bench: Bench) -> None:
    taken = []
    for step in range(60):
        with (bench.root / "train.log").open("ab") as log:
            log.write(b"a line\n")
        if step % 20 == 0:
            write(bench.root / "ckpt.pt", checkpoint(step))
        taken += bench.look()
    assert taken == [1, 2, 3]
    assert bench.content("ckpt.pt") == checkpoint(40)
    assert set(bench.content("train.log").splitlines()) == {b"a line"}


def test_a_slow_write_in_an_unknown_format_is_not_taken_for_a_log(bench: Bench) -> None:
    for _ in range(60):
        with (bench.root / "weights.dat").open("ab") as file:
            file.write(b"x" * 1000)
        assert bench.look() == []


def test_a_log_written_up_to_the_crash_does_not_cost_the_checkpoint_beside_it(bench: Bench) -> None:
    write(bench.root / "model.pt", checkpoint(5))
    write(bench.root / "train.log", b"a line\n")
    bench.report(1)
    assert bench.taker.take_last() is not None
    assert bench.paths() == ["model.pt", "train.log"]


def test_a_broken_file_that_nobody_repairs_does_not_block_for_ever(bench: Bench) -> None:
    write(bench.root / "ckpt-1.pt", checkpoint(1)[:300])
    assert bench.look(10) == []
    write(bench.root / "ckpt-2.pt", checkpoint(2))
    assert len(bench.look(40)) == 1
    assert bench.paths() == ["ckpt-2.pt"]


def test_removing_everything_makes_no_empty_generation(bench: Bench) -> None:
    write(bench.root / "ckpt.pt", checkpoint(1))
    assert bench.look(2) == [1]
    (bench.root / "ckpt.pt").unlink()
    assert bench.look(5) == [] and bench.taker.take_last() is None
    assert bench.paths() == ["ckpt.pt"]


def test_links_inside_the_directory_are_part_of_a_generation(bench: Bench) -> None:
    write(bench.root / "ckpt-1.pt", checkpoint(1))
    (bench.root / "last.pt").symlink_to("ckpt-1.pt")
    bench.look(2)
    newest = newest_complete(bench.store, "b", "job-1")
    assert newest is not None and newest.links == {"last.pt": "ckpt-1.pt"}


def test_a_users_file_named_as_a_manifest_is_kept_as_a_file(bench: Bench) -> None:
    write(bench.root / "MANIFEST.json", b"{}")
    write(bench.root / "ckpt.pt", checkpoint(1))
    assert bench.look(2) == [1]
    assert bench.content("MANIFEST.json") == b"{}"


def test_the_step_is_read_from_names_else_from_the_programs_progress(bench: Bench) -> None:
    (Path(bench.spec.state_dir) / "progress-1.json").write_text('{"step": 120}')
    write(bench.root / "model.pt", checkpoint(1))
    bench.look(2)
    assert newest_complete(bench.store, "b", "job-1").step == 120  # type: ignore[union-attr]


@pytest.mark.parametrize("step", ["99999999999999999999999999", "-4", "true", '"7"', "Infinity", "[" * 5000])
def test_a_step_that_is_none_is_no_step(bench: Bench, step: str) -> None:
    (Path(bench.spec.state_dir) / "progress-1.json").write_text(f'{{"step": {step}}}')
    write(bench.root / "ckpt-99999999999999999999999999.pt", checkpoint(1))
    assert bench.look(2) == [1]
    assert newest_complete(bench.store, "b", "job-1").step is None  # type: ignore[union-attr]


def test_names_as_long_as_names_can_be_are_taken(bench: Bench) -> None:
    names = ["x" * 255, "é" * 127, "💾" * 60 + ".pt", "a." + "y" * 250]
    for name in names:
        write(bench.root / name, checkpoint(1))
    assert bench.look(2) == [1]
    assert bench.paths() == sorted(names)


def test_a_pipe_in_place_of_a_report_or_log_keeps_nobody_waiting(bench: Bench) -> None:
    os.mkfifo(bench.logs / "learner-1.exit.json")
    os.mkfifo(Path(bench.spec.state_dir) / "progress-1.json")
    (bench.logs.parent / "helpers").mkdir()
    os.mkfifo(bench.logs.parent / "helpers" / "helper-a1-l0.log")
    write(bench.root / "model.pt", checkpoint(1))
    assert bench.look(2) == [1]
    assert bench.taker.take_last() is None


def test_a_link_in_place_of_the_directory_is_not_followed(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "secret.pt", checkpoint(1))
    bench.root.rmdir()
    bench.root.symlink_to(tmp_path / "elsewhere")
    assert bench.look(3) == [] and bench.store.objects == {}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.safetensors", struct.pack("<Q", 31) + b'{"w": {"data_offsets": [0,"x"]}}'),
        ("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 32) + b"{'descr': '<f4', 'shape': 'many'}"),
        ("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 6000) + b"(" * 6000),
        ("a.json", b"[" * 100_000),
    ],
)
def test_a_header_that_tells_nonsense_does_not_keep_the_other_files(bench: Bench, name: str, content: bytes) -> None:
    write(bench.root / name, content)
    write(bench.root / "ckpt-1.pt", checkpoint(1))
    assert bench.look(40) != []
    assert "ckpt-1.pt" in bench.paths()


@pytest.mark.parametrize(
    "change",
    [
        {"attempt": "many"}, {"attempt": 1e400}, {"rank": [1]}, {"ranks": -1}, {"links": "x"}, {"links": [1]},
        {"created": "2026-01-01"}, {"files": [{"size": 1e400}]},
    ],
)  # fmt: skip
def test_a_manifest_that_somebody_has_changed_is_no_generation(bench: Bench, change: dict[str, Any]) -> None:
    write(bench.root / "ckpt-1.pt", checkpoint(1))
    bench.look(2)
    key = next(key for key in bench.store.objects if key.endswith("MANIFEST.json"))
    bench.store.put_json("b", key, json.loads(bench.store.objects[key]) | change)
    assert newest_complete(bench.store, "b", "job-1") is None

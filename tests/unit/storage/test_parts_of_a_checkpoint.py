"""A checkpoint of several parts is taken when all of them are there; what can't be stored is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ffdl_ops.adapters.storage.checkpoints import newest_complete
from ffdl_ops.pod.learner.watch import Notices
from tests.support.checkpoints import Bench, checkpoint, write


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class TestADirectoryPerRank:
    def test_it_is_complete_when_every_rank_has_written(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, learners=2, per_rank=True)
        write(bench.root / "rank-0/ckpt-5.pt", checkpoint(5))
        assert bench.look(5) == []
        write(bench.root / "rank-1/ckpt-5.pt", checkpoint(5))
        assert bench.look(2) == [1]
        names = {key.partition("gen-000001/")[2] for key in bench.store.objects}
        assert names == {"rank-0/ckpt-5.pt", "rank-1/ckpt-5.pt", "MANIFEST.rank-0.json", "MANIFEST.rank-1.json"}

    def test_parts_of_different_steps_are_not_one_checkpoint(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, learners=2, per_rank=True)
        write(bench.root / "rank-0/ckpt-6.pt", checkpoint(6))
        write(bench.root / "rank-1/ckpt-5.pt", checkpoint(5))
        assert bench.look(5) == [] and bench.taker.take_last() is None
        write(bench.root / "rank-1/ckpt-6.pt", checkpoint(6))
        assert bench.look(2) == [1]

    def test_without_steps_in_names_each_rank_must_have_written_since_the_last_one(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, learners=2, per_rank=True)
        for rank in (0, 1):
            write(bench.root / f"rank-{rank}/model.pt", checkpoint(1))
        assert bench.look(2) == [1]
        write(bench.root / "rank-0/model.pt", checkpoint(2))
        assert bench.look(5) == []
        write(bench.root / "rank-1/model.pt", checkpoint(2))
        assert bench.look(2) == [2]
        assert bench.content("rank-0/model.pt") == bench.content("rank-1/model.pt") == checkpoint(2)

    def test_a_rank_that_is_still_writing_a_temporary_file_is_waited_for(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, learners=2, per_rank=True)
        for rank in (0, 1):
            write(bench.root / f"rank-{rank}/model.pt", checkpoint(1))
        bench.look(1)
        write(bench.root / "rank-1/model.pt.tmp", b"a")
        assert bench.look(1) == []
        assert bench.look(1) == [1], "a temporary file that rests is somebody's leftover"

    def test_it_is_not_complete_without_every_ranks_manifest(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, learners=2, per_rank=True)
        for rank in (0, 1):
            write(bench.root / f"rank-{rank}/model.pt", checkpoint(1))
        bench.look(2)
        bench.store.objects.pop("jobs/job-1/checkpoints/gen-000001/MANIFEST.rank-1.json")
        assert newest_complete(bench.store, "b", "job-1") is None


NOT_UTF8 = os.fsdecode(b"part-\xff.bin")


def test_a_checkpoint_with_a_file_that_can_not_be_stored_is_no_checkpoint_and_that_is_said(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is whole without it is taken; what belongs to it is not, and never replaces what was whole before."""
    write(bench.root / "step-1" / "a.bin", b"a" * 100)
    assert bench.look(3) == [1]
    write(bench.root / "step-2" / "a.bin", b"b" * 100)
    write(bench.root / "step-2" / NOT_UTF8, b"c" * 100)
    assert bench.look(40) == []
    said = capsys.readouterr()
    assert "step-2/part-\\udcff.bin is not named in UTF-8" in said.out + said.err
    write(bench.root / "step-3" / "a.bin", b"d" * 100)
    assert bench.look(3) == [2]
    assert bench.paths() == ["step-1/a.bin", "step-3/a.bin"]
    said = capsys.readouterr()
    assert "left out, not finished or not named in UTF-8: step-2/a.bin, step-2/part-\\udcff.bin" in said.out + said.err
    (bench.root / "step-2" / NOT_UTF8).rename(bench.root / "step-2" / "part.bin")
    assert bench.look(3) == [3]
    assert "step-2/part.bin" in bench.paths()


def test_a_lone_file_that_can_not_be_stored_is_told(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """In the learner's log too, once."""
    learners_log = Notices(str(bench.root.parent / "state" / "staging" / "notices.log"))
    write(bench.root / NOT_UTF8, b"c")
    assert bench.look(3) == []
    (notice,) = learners_log.news()
    assert "part-\\udcff.bin can't be stored, since its name is not UTF-8" in notice
    assert "save under another name" in notice
    assert bench.look(3) == []
    assert learners_log.news() == []
    said = capsys.readouterr()
    assert "use another name" in said.out + said.err

"""A deleted job's directory goes, whatever its program has laid in it, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ffdl_ops.pod.staging.__main__ import main


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """The directory of a tenant's jobs, with two of them, and a file that is not the tenant's."""
    for name in ("job-1", "job-10"):
        (tmp_path / "jobs" / name / "results").mkdir(parents=True)
        (tmp_path / "jobs" / name / "results" / "model.bin").write_bytes(b"x" * 100)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("stays")
    return tmp_path / "jobs"


def remove(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: Path) -> dict[str, object]:
    raw = {"job_id": "job-1", "tenant": "a", "bucket": "b", "job_dir": str(place)}
    monkeypatch.setenv("FFDL_STAGE_SPEC", json.dumps(raw))
    code = main(["remove"])
    told: dict[str, object] = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["code"] == code
    return told


def test_all_of_the_job_goes_and_nothing_else(
    jobs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = jobs / "job-1" / "closed"
    closed.mkdir()
    (closed / "file").write_bytes(b"y" * 10)
    closed.chmod(0o500)
    (jobs / "job-1" / "out").symlink_to(jobs.parent / "other")
    (jobs / "job-1" / "results" / "elsewhere").symlink_to(jobs.parent / "other" / "file")
    told = remove(monkeypatch, capsys, jobs / "job-1")
    assert (told["code"], told["files"]) == (0, 3)
    assert [path.name for path in jobs.iterdir()] == ["job-10"]
    assert (jobs / "job-10" / "results" / "model.bin").exists()
    assert (jobs.parent / "other" / "file").read_text() == "stays"
    assert remove(monkeypatch, capsys, jobs / "job-1")["files"] == 0


def test_a_link_in_its_place_goes_and_what_it_leads_to_stays(
    jobs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (jobs / "job-1").rename(jobs / "moved")
    (jobs / "job-1").symlink_to(jobs / "job-10")
    assert remove(monkeypatch, capsys, jobs / "job-1")["code"] == 0
    assert not (jobs / "job-1").is_symlink()
    assert (jobs / "job-10" / "results" / "model.bin").exists()


def test_another_jobs_directory_is_refused(
    jobs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert remove(monkeypatch, capsys, jobs / "job-10")["code"] == 64
    assert sorted(path.name for path in (jobs / "job-10").iterdir()) == ["results"]

"""Code goes in checked, results and logs come out verified."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from ffdl_ops.adapters.storage.code import upload_code
from tests.integration.storage.conftest import Job
from tests.support.s3 import S3Server

pytestmark = pytest.mark.slow


def _code(job: Job, content: str) -> dict[str, str]:
    script = job.root / "train.py"
    script.write_text(content)
    uri = upload_code(job.s3.store, job.bucket, script)
    return {"uri": uri, "sha256": uri.rpartition("/")[2].removesuffix(".zip")}


def _stored(job: Job, prefix: str) -> dict[str, int]:
    return {one.key.removeprefix(prefix): one.size for one in job.s3.store.list(job.bucket, prefix)}


def test_uploaded_code_is_in_the_learners_directory_and_replaced_as_a_whole(job: Job) -> None:
    assert job.run("prepare", code=_code(job, "print(1)"))["code_files"] == 1
    (job.job_dir / "code/leftover.py").write_text("")
    job.run("prepare", code=_code(job, "print(2)"), attempt=2)
    assert {path.name: path.read_text() for path in (job.job_dir / "code").iterdir()} == {"train.py": "print(2)"}


def test_code_that_is_not_what_was_meant_is_refused(job: Job) -> None:
    code = _code(job, "print(1)")
    other = _code(job, "print(2)")
    swapped = job.run("prepare", code={**code, "uri": other["uri"]})
    assert swapped["code"] == 65 and "sha256" in swapped["error"]
    gone = job.run("prepare", code={"uri": f"s3://{job.bucket}/code/none.zip", "sha256": None})
    assert gone["code"] == 65


def test_an_archive_with_a_way_out_is_refused_in_the_pod_too(job: Job) -> None:
    with zipfile.ZipFile(job.root / "evil.zip", "w") as archive:
        archive.writestr("../../evil.txt", "x")
    job.s3.store.put_file(job.bucket, "code/evil.zip", job.root / "evil.zip")
    refused = job.run("prepare", code={"uri": f"s3://{job.bucket}/code/evil.zip", "sha256": None})
    assert refused["code"] == 65 and "evil.txt" in refused["error"]
    assert not list(job.root.rglob("evil.txt"))


def test_an_example_is_copied_and_an_unknown_one_refused_by_name(job: Job) -> None:
    assert job.run("prepare", code={"inline_example": "digits-pytorch"})["ok"]
    assert (job.job_dir / "code/digits_pytorch.py").is_file()
    unknown = job.run("prepare", code={"inline_example": "no-such"}, attempt=2)
    assert unknown["code"] == 64 and "no-such" in unknown["error"]


def test_results_and_all_logs_are_stored_after_a_failure_too_without_leading_outside(job: Job) -> None:
    """Pitfalls 42 and 44: straight to the object store, and logs also when the job failed."""
    job.run("prepare")
    results, logs = job.job_dir / "results", job.job_dir / "logs/attempt-1"
    (results / "export").mkdir()
    (results / "export/model 'final'.pt").write_bytes(os.urandom(70 << 20))
    (results / "passwd").symlink_to("/etc/passwd")
    (results / "etc").symlink_to("/etc")
    os.mkfifo(results / "pipe")
    Path(os.fsdecode(os.fsencode(results) + b"/best-\xff.pt")).write_bytes(b"x")
    (logs / "learner-1.log").write_text("Traceback …\n")
    (logs / "learner-1.exit.json").write_text('{"exit_code": 1}')
    (job.job_dir / "state/progress-1.json").write_text('{"step": 3}')
    told = job.run("store")
    assert told["ok"] and told["results_files"] == 1 and told["results_uri"] == f"s3://{job.bucket}/jobs/job-1/results/"
    assert sorted(told["skipped"]) == [
        "results/best-\\udcff.pt: its name is not UTF-8; save it under another name",
        "results/etc: a symbolic link", "results/passwd: a symbolic link", "results/pipe: not a regular file",
    ]  # fmt: skip
    assert _stored(job, "jobs/job-1/results/") == {"export/model 'final'.pt": 70 << 20}
    stored = _stored(job, "jobs/job-1/logs/")
    assert {"attempt-1/learner-1.log", "attempt-1/learner-1.exit.json", "state/progress-1.json"} <= stored.keys()


def test_storing_again_uploads_only_what_changed_even_if_its_size_is_the_same(job: Job) -> None:
    job.run("prepare")
    for name in "abc":
        (job.job_dir / f"results/{name}").write_bytes(name.encode() * 100)
    assert job.run("store")["uploaded_files"] >= 3
    assert job.run("store")["uploaded_files"] == 0
    (job.job_dir / "results/b").write_bytes(b"x" * 100)
    again = job.run("store")
    assert again["uploaded_files"] == 1 and again["results_files"] == 3
    assert job.s3.store.get_bytes(job.bucket, "jobs/job-1/results/b") == b"x" * 100


def test_names_that_a_shell_would_trip_over_are_stored_as_they_are(job: Job) -> None:
    job.run("prepare")
    names = {"it's", 'a "b"', "x*y", "new\nline", "ümlaut", "-rf", "$HOME"}
    for name in names:
        (job.job_dir / "results" / name).write_text(name)
    assert job.run("store")["results_files"] == len(names)
    assert set(_stored(job, "jobs/job-1/results/")) == names


def test_a_job_without_results_is_stored_as_such(job: Job) -> None:
    told = job.run("store")
    assert told["ok"] and told["results_files"] == 0


def test_results_go_to_the_manifests_own_store_and_logs_to_the_tenants(job: Job, own_s3: S3Server) -> None:
    own_s3.bucket("theirs")
    job.environment = own_s3.environment("FFDL_DATA_S3_")
    job.overrides = {"results": {"bucket": "theirs", "prefix": "out/job-1"}}
    job.run("prepare")
    (job.job_dir / "results/model.pt").write_bytes(b"1")
    assert job.run("store")["results_uri"] == "s3://theirs/out/job-1/"
    assert [one.key for one in own_s3.store.list("theirs")] == ["out/job-1/model.pt"]
    assert _stored(job, "jobs/job-1/logs/")


def test_a_store_that_is_away_is_told_and_a_later_try_stores_everything(own_s3: S3Server, tmp_path: Path) -> None:
    job = Job(own_s3, own_s3.bucket("tenant"), tmp_path)
    job.run("prepare")
    (job.job_dir / "results/model.pt").write_bytes(b"1" * 1000)
    own_s3.stop()
    assert job.run("store")["code"] == 69
    own_s3.start()
    assert job.run("store")["results_files"] == 1


def test_the_benchmark_measures_both_arms_on_small_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from ffdl_ops.lab.bench.staging import run

    result = run(json=True, size=1 << 20, files=20, rounds=1, directory=str(tmp_path))
    for shape in ("one_file", "many_files"):
        assert result[shape]["ratio_median"] > 0 and result[shape]["ours_mib_s_median"] > 0
    assert '"one_file"' in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []

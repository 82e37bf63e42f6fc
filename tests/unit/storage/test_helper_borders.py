"""What a helper is told and what it tells: checked at the border, short enough, and without secrets."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ffdl_ops.adapters.storage.config import StoreConfig, from_env
from ffdl_ops.adapters.storage.errors import (
    AccessRefused,
    BadSpec,
    DataMissing,
    DiskTrouble,
    Unreachable,
    exit_code,
    from_text,
)
from ffdl_ops.pod.staging.__main__ import main
from ffdl_ops.pod.staging.launcher import write_launcher
from ffdl_ops.pod.staging.report import MAX_MESSAGE_BYTES, write_result
from ffdl_ops.pod.staging.spec import load_spec

SPEC = {"job_id": "job-1", "tenant": "a", "attempt": 1, "rank": 0, "learners": 1, "bucket": "b"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"job_id": "../x"}, "job_id"),
        ({"bucket": ""}, "bucket"),
        ({"attempt": -1}, "attempt"),
        ({"learners": 0}, "learners"),
        ({"job_dir": "relative"}, "job_dir"),
        ({"data": {"bucket": "b", "prefix": "", "key": "../../etc"}}, "data.key"),
        ({"data": []}, "data"),
        ({"code": {"uri": "http://x/y"}}, "code.uri"),
        ({"code": {"uri": "s3://b/k", "sha256": "abc"}}, "code.sha256"),
        ({"checkpoint": {"interval_s": 0}}, "checkpoint.interval_s"),
        ({"checkpoint": {"keep": 0}}, "checkpoint.keep"),
    ],
)
def test_a_wrong_specification_is_refused_by_field(change: dict[str, object], field: str) -> None:
    with pytest.raises(BadSpec) as refusal:
        load_spec(json.dumps(SPEC | change))
    assert field in str(refusal.value)


def test_a_helper_without_a_specification_ends_with_64_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FFDL_STAGE_SPEC", raising=False)
    monkeypatch.setenv("FFDL_TERMINATION_LOG", str(tmp_path / "termination"))
    assert main(["prepare"]) == 64
    told = json.loads((tmp_path / "termination").read_text())
    assert told["ok"] is False and told["code"] == 64 and "FFDL_STAGE_SPEC" in told["error"]
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == told
    assert main(["dance"]) == 64


def test_missing_credentials_are_named_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadSpec, match="FFDL_S3_SECRET_ACCESS_KEY"):
        from_env(environ={"FFDL_S3_ACCESS_KEY_ID": "k"})
    config = StoreConfig("http://x", "key", "the-secret")
    assert "the-secret" not in repr(config)
    assert config.redact("said the-secret") == "said ***"


def test_a_result_holds_no_secret_and_fits_into_a_termination_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FFDL_S3_SECRET_ACCESS_KEY", "hush-hush")
    monkeypatch.setenv("FFDL_TERMINATION_LOG", str(tmp_path / "termination"))
    skipped = [f"file-{number}" * 20 for number in range(500)]
    write_result({"ok": False, "error": "hush-hush " * 1000, "skipped": skipped, "code": 69})
    text = (tmp_path / "termination").read_text()
    assert len(text.encode()) <= MAX_MESSAGE_BYTES + 1
    assert "hush" not in text + capsys.readouterr().out
    assert json.loads(text)["code"] == 69


@pytest.mark.parametrize(
    ("said", "kind", "code"),
    [
        ("NoSuchKey:  status code: 404, request id: 2B", DataMissing, 65),
        ("no object found", DataMissing, 65),
        ("SignatureDoesNotMatch: … status code: 403", AccessRefused, 66),
        ("InvalidAccessKeyId: …", AccessRefused, 66),
        ("RequestError: send request failed … connect: connection refused", Unreachable, 69),
        ("write x/big.bin14: no space left on device", DiskTrouble, 74),
    ],
)
def test_the_engines_words_become_an_exit_code(said: str, kind: type[Exception], code: int) -> None:
    error = from_text(said, "downloading")
    assert isinstance(error, kind) and exit_code(error) == code


def test_the_launcher_is_one_archive_with_stubs_around_the_learner(tmp_path: Path) -> None:
    path = write_launcher(str(tmp_path))
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert archive.read("ffdl_ops/__init__.py").count(b"import") == 0
    assert {"__main__.py", "ffdl_ops/__init__.py", "ffdl_ops/pod/__init__.py", "ffdl_ops/pod/learner/__init__.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]


def test_a_helper_with_nothing_to_ask_the_store_imports_no_client() -> None:
    code = (
        "import sys\n"
        "from ffdl_ops.pod.staging import __main__, fetch, prepare\n"
        "heavy = {'boto3', 'botocore', 'pydantic', 'numpy'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("part", ["results", "logs"])
def test_a_link_in_place_of_a_directory_of_results_or_logs_is_not_followed(tmp_path: Path, part: str) -> None:
    from ffdl_ops.pod.staging.store import _files, _Part
    from tests.support.s3 import MemoryStore

    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("x")
    (tmp_path / part).symlink_to(tmp_path / "elsewhere")
    skipped: list[str] = []
    assert list(_files(_Part(part, MemoryStore(), str(tmp_path / part), "b", "jobs/job-1"), skipped)) == []
    assert skipped == [f"{part}: a symbolic link"]


def test_a_name_as_long_as_a_name_can_be_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tools write to a longer name first, which the file system would refuse."""
    from ffdl_ops.adapters.storage.transfer import Download, download
    from tests.support.s3 import MemoryStore

    def get_file(bucket: str, key: str, path: str) -> int:
        return Path(f"{path}.12345678").write_bytes(b"data") and Path(f"{path}.12345678").rename(path).stat().st_size

    store = MemoryStore()
    monkeypatch.setattr(store, "get_file", get_file)
    path = tmp_path / ("x" * 255)
    assert download(store, [Download("b", "k", 4, str(path))]) == 4
    assert path.read_bytes() == b"data" and list(tmp_path.iterdir()) == [path]
    assert isinstance(from_text("open /x: file name too long", "downloading"), DiskTrouble)

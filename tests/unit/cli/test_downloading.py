"""`ffdl download`: whole or not at all, never over what is there, never outside the directory."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ffdl_ops.adapters.storage.errors import Unreachable
from ffdl_ops.core.jobs.states import JobState

ID = "job-aaaa000001"
ROOT = f"jobs/{ID}"


@pytest.fixture(autouse=True)
def transfer(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(store: Any, items: Sequence[Any]) -> int:
        for item in items:
            Path(item.path).parent.mkdir(parents=True, exist_ok=True)
            Path(item.path).write_bytes(store.objects[item.bucket, item.key])
        return sum(item.size for item in items)

    monkeypatch.setattr("ffdl_ops.adapters.storage.transfer.download", download)


@pytest.fixture
def trained(cli: Any, job: Any) -> None:
    cli.ledger.add(job(ID, code_uri="s3://ffdl-vision/code/abc.zip"))
    cli.store.put("ffdl-vision", f"{ROOT}/results/model.pt", b"weights")
    cli.store.put("ffdl-vision", f"{ROOT}/results/plots/loss.png", b"plot")
    cli.store.put("ffdl-vision", f"{ROOT}/logs/attempt-1/learner-1.log", b"line\n")
    cli.store.put("ffdl-vision", "code/abc.zip", b"zip")
    cli.store.put("ffdl-vision", "jobs/job-aaaa0000019/results/other.pt", b"another job's")
    for number in (1, 2):
        key = f"{ROOT}/checkpoints/gen-{number:06d}"
        cli.store.put("ffdl-vision", f"{key}/state.pt", b"s" * number)
        manifest = {
            "generation": number, "created": "2026-01-01T12:00:00Z", "attempt": 1, "step": 10 * number, "rank": None,
            "ranks": 1, "files": [{"path": "state.pt", "size": number, "sha256": "0" * 64, "key": f"{key}/state.pt"}],
        }  # fmt: skip
        cli.store.put("ffdl-vision", f"{key}/MANIFEST.json", json.dumps(manifest).encode())
    cli.store.put("ffdl-vision", f"{ROOT}/checkpoints/gen-000003/state.pt", b"half of it")


def files(directory: str | Path) -> dict[str, bytes]:
    root = Path(directory)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize(
    ("what", "found"),
    [
        ("model", {"model.pt": b"weights", "plots/loss.png": b"plot"}),
        ("logs", {"attempt-1/learner-1.log": b"line\n"}),
        ("code", {"code.zip": b"zip"}),
        ("checkpoint", {"state.pt": b"ss"}),
    ],
)
def test_each_thing_comes_into_a_directory_of_its_own(cli: Any, what: str, found: dict[str, bytes]) -> None:
    told = json.loads(cli.ok("download", ID, what, "--json").stdout)
    assert files(f"{ID}/{what}") == found
    assert (told["files"], told["bytes"]) == (len(found), sum(len(content) for content in found.values()))
    assert os.listdir(ID) == [what]


@pytest.mark.usefixtures("trained")
def test_an_older_checkpoint_may_be_chosen_but_never_an_incomplete_one(cli: Any) -> None:
    cli.ok("download", ID, "checkpoint", "--generation", "1", "--to", "one")
    assert files("one") == {"state.pt": b"s"}
    assert "there are 1, 2" in cli.refused(65, "download", ID, "checkpoint", "--generation", "3", "--to", "three")
    assert not Path("three").exists()


@pytest.mark.usefixtures("trained")
def test_what_is_there_is_kept_unless_forced(cli: Any) -> None:
    Path("out").mkdir()
    Path("out/mine").write_text("precious")
    assert "--force" in cli.refused(3, "download", ID, "--to", "out")
    assert files("out") == {"mine": b"precious"}
    cli.ok("download", ID, "--to", "out", "--force")
    assert set(files("out")) == {"model.pt", "plots/loss.png"}
    assert sorted(os.listdir()) == ["out"]


@pytest.mark.usefixtures("trained")
def test_an_empty_directory_is_filled(cli: Any) -> None:
    Path("out").mkdir()
    cli.ok("download", ID, "--to", "out")
    assert "model.pt" in files("out")


@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize("target", [".", "..", "~"])
def test_home_and_the_present_directory_are_never_replaced(
    cli: Any, tmp_path: Path, target: str, monkeypatch: Any
) -> None:
    home = tmp_path / "home"
    (home / "here").mkdir(parents=True)
    (home / "here" / "mine").write_text("precious")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "here")
    cli.refused(3, "download", ID, "--force", "--to", str(home) if target == "~" else target)
    assert (home / "here" / "mine").read_text() == "precious"


@pytest.mark.usefixtures("trained")
def test_a_file_in_the_way_is_refused_even_when_forced(cli: Any) -> None:
    Path("out").write_text("precious")
    cli.refused(3, "download", ID, "--force", "--to", "out")
    assert Path("out").read_text() == "precious"


@pytest.mark.usefixtures("trained")
def test_a_download_that_breaks_leaves_nothing_and_keeps_the_old(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(store: Any, items: Sequence[Any]) -> int:
        Path(items[0].path).write_bytes(b"half")
        raise Unreachable("s3 went away")

    monkeypatch.setattr("ffdl_ops.adapters.storage.transfer.download", broken)
    Path("out").mkdir()
    Path("out/old").write_text("old")
    cli.refused(69, "download", ID, "--to", "out", "--force")
    cli.refused(69, "download", ID, "--to", "fresh")
    assert files(".") == {"out/old": b"old"}
    assert os.listdir() == ["out"]


@pytest.mark.parametrize("key", ["../evil", "a/../../evil", "/etc/evil", "a//b"])
def test_a_key_that_leads_out_of_the_directory_is_refused(cli: Any, job: Any, key: str) -> None:
    cli.ledger.add(job(ID))
    cli.store.put("ffdl-vision", f"{ROOT}/results/{key}", b"x")
    assert cli.refused(65, "download", ID, "--to", "out")
    assert os.listdir() == []


def test_results_are_fetched_from_where_the_manifest_sent_them(cli: Any, job: Any) -> None:
    stores = [{"id": "d", "type": "mount_cos", "training_results": {"container": "ffdl-vision/out"}}]
    cli.ledger.add(job(ID, manifest={"name": "digits", "example": "digits-pytorch", "data_stores": stores}))
    cli.store.put("ffdl-vision", f"out/{ID}/model.pt", b"weights")
    cli.ok("download", ID, "--to", "out")
    assert files("out") == {"model.pt": b"weights"}


@pytest.mark.parametrize(
    ("what", "words"),
    [("model", "PROCESSING"), ("checkpoint", "no complete checkpoint"), ("code", "example digits-pytorch")],
)
def test_what_is_not_there_yet_is_said_with_the_state(cli: Any, job: Any, what: str, words: str) -> None:
    cli.ledger.add(job(ID, state=JobState.PROCESSING, outcome=None))
    assert words in cli.refused(65, "download", ID, what)
    assert os.listdir() == []

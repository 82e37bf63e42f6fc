"""The images: pinned, small in rights, and with exactly the lock's versions."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

IMAGES = Path(__file__).parents[3] / "images"
FOLDERS = sorted(path.parent for path in IMAGES.glob("*/Dockerfile"))
NAMES = [folder.name for folder in FOLDERS]


@dataclass(frozen=True)
class Step:
    """One instruction of a Dockerfile."""

    word: str
    rest: str


def steps(folder: Path) -> list[Step]:
    text = re.sub(r"\\\n", " ", (folder / "Dockerfile").read_text())
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return [Step(word.upper(), " ".join(rest.split())) for word, _, rest in pairs]


def last_stage(folder: Path) -> list[Step]:
    found = steps(folder)
    return found[max(at for at, step in enumerate(found) if step.word == "FROM") :]


def test_every_image_that_the_platform_names_has_a_dockerfile() -> None:
    assert {"airflow", "helper", "learner-pytorch", "learner-tensorflow", "mlflow"} == set(NAMES)


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_a_base_image_is_pinned_and_names_no_registry(folder: Path) -> None:
    for step in steps(folder):
        if step.word == "FROM":
            image = step.rest.split()[0]
            assert re.fullmatch(r"[a-z0-9]+(/[a-z0-9-]+)?:\d+\.\d+\.\d+[a-z0-9.-]*", image), image


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_an_image_runs_as_a_numbered_user_that_is_not_root(folder: Path) -> None:
    users = [step.rest for step in last_stage(folder) if step.word == "USER"]
    assert users, "no USER in the last stage"
    assert re.fullmatch(r"[1-9]\d*:\d+", users[-1])
    after = last_stage(folder)[[step.word for step in last_stage(folder)].index("USER") :]
    assert not [step for step in after if step.word in ("RUN", "COPY", "ADD")]


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_an_image_fetches_nothing_but_pinned_packages(folder: Path) -> None:
    for step in steps(folder):
        assert step.word != "ADD"
        if step.word == "RUN":
            assert not re.search(r"\b(curl|wget|git|apt-get|apt)\b", step.rest)
            for command in re.findall(r"pip install ([^&|;]*)", step.rest):
                assert "--no-deps" in command, "what is not in requirements.txt must not come along"


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_an_image_holds_no_secret(folder: Path) -> None:
    for step in steps(folder):
        if step.word in ("ENV", "ARG"):
            assert not re.search(r"(?i)password|secret|token|_key", step.rest), step.rest


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_what_an_image_copies_is_in_the_repository(folder: Path, root: Path) -> None:
    for step in steps(folder):
        words = shlex.split(step.rest)
        if step.word == "COPY" and not words[0].startswith("--from="):
            for source in words[:-1]:
                assert (root / source).exists(), source


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_requirements_are_all_that_is_needed_at_the_locks_versions(folder: Path, pin: ModuleType) -> None:
    text = (folder / "requirements.txt").read_text()
    assert text == pin.pinned(folder), "out of date: run `python images/pin.py`"
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert set(lines) <= set(pin.locked().values())
    assert {pin.canonical(need.name) for need in pin.wanted(folder)} <= {
        pin.canonical(line.partition("==")[0]) for line in lines
    }


def test_learners_and_helpers_stay_free_of_the_platforms_weight(pin: ModuleType) -> None:
    """Images are pulled onto every node: what a pod does not use is not in its image."""
    heavy = {"apache-airflow-core", "mlflow", "kubernetes", "pandas", "flask"}
    for name in ("helper", "learner-pytorch", "learner-tensorflow"):
        assert not heavy & pin.closure(pin.wanted(IMAGES / name)), name
    assert not {"mlflow", "torch", "tensorflow"} & pin.closure(pin.wanted(IMAGES / "airflow"))


def test_a_stale_requirements_file_is_found(pin: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "requirements.in").write_text("boto3\n")
    pinned = pin.pinned(tmp_path)
    assert "botocore==" in pinned
    assert "pydantic==" not in pinned

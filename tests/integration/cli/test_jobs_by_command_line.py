"""Jobs submitted, watched, stopped, resumed, fetched and deleted by `ffdl`, on the real platform."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from ffdl_ops.adapters.storage.store import ObjectStore
from tests.support.platform import Platform
from tests.support.rig import Rig, Run

pytestmark = pytest.mark.slow

Ffdl = Callable[..., Result]
LIMIT = ("--timeout", "240")


def probe(flags: str = "") -> tuple[str, ...]:
    """Options of a job that runs the tiny probe program."""
    return ("submit", "--example", "probe", "--command", f"python3 probe.py {flags}".strip())


def submitted(ffdl: Ffdl, *args: str) -> str:
    return str(json.loads(ffdl(*args, "--json").stdout)["job_id"])


def state_of(ffdl: Ffdl, job_id: str) -> str:
    return str(json.loads(ffdl("show", job_id, "--json").stdout)["state"])


def test_a_followed_job_ends_completed_and_all_of_it_can_be_fetched(ffdl: Ffdl) -> None:
    followed = ffdl(*probe("--steps 5"), "--learners", "2", "--follow", *LIMIT, "--json")
    told = json.loads(followed.stdout)
    job_id = told["job_id"]
    assert told["state"] == "COMPLETED"
    assert "PROCESSING" in followed.stderr
    story = json.loads(ffdl("show", job_id, "--json").stdout)
    assert {"plan", "learners", "store_results", "conclude"} <= set(story["stage_seconds"])
    assert story["leases"][0]["released_at"]
    assert ffdl("show", job_id.removeprefix("job-")[:8]).stdout
    assert any(one["job_id"] == job_id for one in json.loads(ffdl("list", "--json").stdout))
    for learner in (1, 2):
        lines = ffdl("logs", job_id, "--learner", str(learner)).stdout.splitlines()
        assert [line for line in lines if "step=5" in line and f"[learner {learner}]" in line]
    assert json.loads(ffdl("metrics", job_id, "--json").stdout)["latest"]["loss"]["step"] == 5
    ffdl("download", job_id, "model", "--to", "model")
    assert json.loads(Path("model/probe.json").read_text())["steps"] == 5
    ffdl("download", job_id, "logs")
    assert (Path(job_id) / "logs" / "attempt-1" / "learner-1.log").stat().st_size
    ffdl("download", job_id, "checkpoint")
    assert any((Path(job_id) / "checkpoint").rglob("probe-0.json"))


def test_a_live_log_holds_each_line_that_is_stored_and_holds_it_once(ffdl: Ffdl) -> None:
    job_id = submitted(ffdl, *probe("--steps 10 --seconds-per-step 0.5"))
    _until_stored(ffdl, job_id)
    live = [line for line in ffdl("logs", "-f", job_id).stdout.splitlines() if "step=" in line]
    stored = [line for line in ffdl("logs", job_id).stdout.splitlines() if "step=" in line]
    assert live == stored
    assert len(live) >= 10


def test_a_failed_job_is_told_with_its_class_and_exit_code_1(ffdl: Ffdl) -> None:
    result = ffdl(*probe("--exit-code 3 --exit-at-step 2"), "--follow", *LIMIT, code=1)
    assert "user_error" in result.stdout


def test_what_only_the_cluster_knows_is_refused_by_plan_with_its_words(ffdl: Ffdl) -> None:
    result = ffdl(*probe(), "--memory", "900Ti", "--follow", *LIMIT, code=3)
    assert "memory" in result.stderr


def test_data_that_is_absent_fails_the_job_which_goes_on_once_it_is_there(ffdl: Ffdl, platform: Platform) -> None:
    place = f"late/{uuid.uuid4().hex}"
    bucket = platform.settings.tenants["vision"].bucket
    result = ffdl(*probe("--steps 2"), "--data", f"{bucket}/{place}", "--follow", *LIMIT, code=1)
    assert place in result.stdout
    job_id = re.findall(r"job-[0-9a-f]+", result.stdout)[0]
    ObjectStore(platform.settings.store_config("vision")).put_bytes(bucket, f"{place}/one", b"1")
    ffdl("resume", job_id, "--follow", *LIMIT)


def test_a_halted_job_resumes_from_its_checkpoint_in_the_same_mlflow_run(ffdl: Ffdl) -> None:
    job_id = submitted(ffdl, *probe("--steps 30 --seconds-per-step 0.4"))
    _until_stored(ffdl, job_id)
    _until_logged(ffdl, job_id, "step=5 ")
    ffdl("halt", job_id, "--wait", *LIMIT)
    assert state_of(ffdl, job_id) == "HALTED"
    assert "stopped and saved" in ffdl("logs", job_id).stdout
    before = json.loads(ffdl("metrics", job_id, "--json").stdout)
    assert before["status"] == "KILLED"
    ffdl("halt", job_id)
    ffdl("resume", job_id, "--follow", *LIMIT)
    after = json.loads(ffdl("metrics", job_id, "--json").stdout)
    assert (after["mlflow_run_id"], after["status"]) == (before["mlflow_run_id"], "FINISHED")
    assert "resumed at step=" in ffdl("logs", job_id).stdout


def test_a_run_is_halted_before_its_plan_has_stored_a_job(ffdl: Ffdl, platform: Platform) -> None:
    rig = Rig(platform.settings)
    rig.faults.fail_api(share=0, delay_s=20, path="/nodes")
    try:
        about = json.loads(ffdl(*probe("--steps 100 --seconds-per-step 0.4"), "--json").stdout)
        run = Run(about["dag_id"], about["run_id"], about["job_id"], about["tenant"])
        rig.wait_task(run, "plan", {"running"})
        told = ffdl("halt", run.job_id, "--wait", "--timeout", "60").stdout
    finally:
        rig.faults.heal_api()
    assert "before its `plan` has stored it" in told
    assert rig.wait_run(run) == "failed"
    rig.wait_task(run, "conclude", {"failed"})
    assert rig.job(run) is None
    assert rig.pods(run) == []


def test_a_deleted_job_leaves_nothing_but_its_record(ffdl: Ffdl, platform: Platform) -> None:
    job_id = submitted(ffdl, *probe("--steps 100 --seconds-per-step 0.4"))
    _until_stored(ffdl, job_id)
    ffdl("delete", job_id, code=3)
    _until_logged(ffdl, job_id, "step=1 ")
    volumes = platform.home / "minicluster" / "hostpath"
    assert list(volumes.glob(f"**/jobs/{job_id}"))
    ffdl("delete", job_id, "--force", *LIMIT)
    assert not list(volumes.glob(f"**/jobs/{job_id}"))
    assert json.loads(ffdl("show", job_id, "--json").stdout)["deleted_at"]
    ffdl("download", job_id, "logs", code=65)
    ffdl("resume", job_id, code=3)


def test_code_of_ones_own_is_run_from_a_directory(ffdl: Ffdl) -> None:
    Path("mine").mkdir()
    Path("mine/train.py").write_text(
        "import os, pathlib\n"
        "pathlib.Path(os.environ['RESULT_DIR'], 'model.txt').write_text('trained')\n"
        "print('loss=0.5 step=1')\n"
    )
    job = ("submit", "--framework", "pytorch", "--command", "python3 train.py", "--code", "mine")
    job_id = json.loads(ffdl(*job, "--follow", *LIMIT, "--json").stdout)["job_id"]
    ffdl("download", job_id, "--to", "out")
    assert Path("out/model.txt").read_text() == "trained"
    ffdl("download", job_id, "code")
    assert (Path(job_id) / "code" / "code.zip").stat().st_size


def test_scalars_of_event_files_are_in_mlflow_with_their_step_and_time(ffdl: Ffdl) -> None:
    Path("mine").mkdir()
    Path("mine/train.py").write_text(
        "import os\n"
        "import tensorflow as tf\n"
        "v1 = tf.compat.v1\n"
        "with tf.Graph().as_default():\n"
        "    writer = v1.summary.FileWriter(os.environ['LOG_DIR'] + '/tb')\n"
        "    for step in range(3):\n"
        "        value = v1.Summary.Value(tag='loss', simple_value=1 / (step + 1))\n"
        "        event = v1.Event(wall_time=1_700_000_000 + step, step=step, summary=v1.Summary(value=[value]))\n"
        "        writer.add_event(event)\n"
        "    writer.close()\n"
    )
    Path("job.yml").write_text(
        "name: events\nframework: {name: tensorflow, command: python3 train.py}\n"
        "evaluation_metrics: {type: tensorboard, in: $LOG_DIR/tb}\n"
    )
    told = ffdl("submit", "job.yml", "--code", "mine", "--follow", *LIMIT, "--json").stdout
    points = json.loads(ffdl("metrics", json.loads(told)["job_id"], "--key", "loss", "--json").stdout)["series"]["loss"]
    assert [(one["step"], round(one["value"], 3)) for one in points] == [(0, 1.0), (1, 0.5), (2, 0.333)]
    assert all(one["at"].startswith("2023-11-14T22:13:2") for one in points)


def test_both_databases_are_backed_up_while_the_platform_is_up(ffdl: Ffdl) -> None:
    told = json.loads(ffdl("backup", "saved", "--json").stdout)
    assert {name: Path(path).stat().st_size > 1000 for name, path in told["files"].items()} == {
        "ledger": True,
        "mlflow": True,
    }


def _until_stored(ffdl: Ffdl, job_id: str) -> None:
    """Until `plan` has stored the job: what names it by its id works from then on."""
    from tests.support.rig import eventually

    eventually(
        f"{job_id} in the list",
        lambda: any(one["job_id"] == job_id for one in json.loads(ffdl("list", "--json").stdout)),
    )


def _until_logged(ffdl: Ffdl, job_id: str, words: str) -> None:
    from tests.support.rig import eventually

    eventually(f"{words!r} in the log of {job_id}", lambda: words in ffdl("logs", job_id).stdout, within_s=90)

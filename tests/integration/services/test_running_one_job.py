"""`ffdl run`: one job from end to end, killed in between, and again."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.platform import FFDL, REPOSITORY, new_platform

pytestmark = pytest.mark.slow


def test_a_run_that_was_killed_is_followed_by_one_that_reuses_the_platform_and_completes() -> None:
    with new_platform() as platform:
        killed = subprocess.Popen(
            [*FFDL, "run"], env=platform.environment, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
        assert killed.stdout is not None
        said = []
        for line in killed.stdout:
            said.append(line)
            if line.startswith("Triggered"):
                break
        assert said[-1].startswith("Triggered"), "".join(said)
        killed.kill()
        killed.wait()
        before = {row.service: row.pid for row in platform.stack.status()}
        assert all(before.values())
        done = platform.ffdl("run", "--once")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "is COMPLETED" in done.stdout
        for stage in ("plan", "learners", "store_results", "conclude"):
            assert f"\n  {stage} " in done.stdout
        assert "accuracy:" in done.stdout
        assert "s3://ffdl-vision/jobs/" in done.stdout
        assert platform.settings.endpoints["users"]["vision-user"] in done.stdout
        assert {row.service: row.pid for row in platform.stack.status()} == before
        refused = platform.ffdl("run", "--once", "--example", "no-such-example")
        assert refused.returncode != 0
        assert "no-such-example" in refused.stderr

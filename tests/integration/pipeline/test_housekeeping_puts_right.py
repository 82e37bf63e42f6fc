"""What nobody answers for any more is found, put right and told; what lives is left alone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ffdl_ops.pipeline.housekeeping import reconcile
from ffdl_ops.pipeline.services import Services
from tests.support.platform import Platform
from tests.support.rig import Rig, eventually

pytestmark = pytest.mark.slow

LONG = "--steps 400 --seconds-per-step 0.5"


def test_a_gang_whose_run_has_gone_is_stopped_and_its_places_are_given_back(rig: Rig, platform: Platform) -> None:
    """Pitfall 17: what is held is what living pods hold, until they are confirmed gone."""
    living = rig.probe("speech", LONG, gpus=1, gpu_type="V100")
    orphan = rig.probe("speech", LONG, gpus=1, gpu_type="V100")
    for run in (living, orphan):
        rig.wait_job(run, {"PROCESSING"})
    lease = rig.ledger.lease(orphan.job_id)
    assert lease is not None
    # As when Airflow's database was restored from before the run: nobody is left who would stop the gang.
    platform.stack.postgres.query("DELETE FROM dag_run WHERE run_id = %s", orphan.run_id, database="airflow")
    svc = Services(rig.settings)
    told: list[str] = []

    def given_back() -> bool:
        told.extend(reconcile(svc, timedelta()))
        return rig.ledger.lease(orphan.job_id) is None

    eventually("the lease is given back", given_back, within_s=120, every_s=2)
    assert rig.pods(orphan) == []
    assert any("live on though the job has ended; its pods were stopped" in line for line in told), told
    assert any(f"lease {lease.epoch} was held" in line and line.endswith("it was given back") for line in told), told
    assert {line.partition(":")[0] for line in told} == {orphan.job_id}
    audit = [line.action for line in rig.ledger.audit_lines(job_id=orphan.job_id) if line.actor == "housekeeping"]
    assert audit[-1] == "release"
    assert set(audit) == {"stop", "release"}
    assert len(rig.pods(living)) == 1
    assert rig.ledger.lease(living.job_id) is not None
    assert reconcile(svc, timedelta()) == []
    rig.airflow.mark_run_failed(living.dag_id, living.run_id)
    rig.wait_job(living, {"HALTED"})

"""`prepare`: everything is in place for a learner: data on its node, the job's code and checkpoint, the launcher.

Data and launcher are made in each pod; code and checkpoint are the gang's, so the first pod of an attempt makes them and
the others wait and find them made.
"""

from __future__ import annotations

import os
from typing import Any

from ffdl_ops.adapters.storage.errors import BadSpec, from_disk
from ffdl_ops.pod.staging.archive import place_code
from ffdl_ops.pod.staging.fetch import fetch
from ffdl_ops.pod.staging.files import locked, read_json, write_json
from ffdl_ops.pod.staging.launcher import write_launcher
from ffdl_ops.pod.staging.report import say
from ffdl_ops.pod.staging.spec import StageSpec

__all__ = ["prepare"]


def prepare(spec: StageSpec) -> dict[str, Any]:
    """Prepare one learner's pod.

    :returns: the data's bytes and files, whether it was cached, and the restored generation and step.
    :raises FfdlError: whatever keeps a learner from starting (see :mod:`ffdl_ops.adapters.storage.errors`).
    """
    try:
        for name in ("checkpoints", "results", f"logs/attempt-{spec.attempt}", "state/staging"):
            os.makedirs(os.path.join(spec.job_dir, name), exist_ok=True)
        write_launcher(spec.tools_dir)
        data = fetch(spec)
        with locked(os.path.join(spec.staging_dir, "prepare.lock")):
            shared = _prepare_job(spec)
    except OSError as error:
        raise from_disk(error, f"preparing {spec.job_dir}") from None
    return {**data, **shared}


def _prepare_job(spec: StageSpec) -> dict[str, Any]:
    """What the gang shares, once per attempt; an attempt of 0 (a preflight) keeps nothing and restores nothing."""
    marker = os.path.join(spec.staging_dir, "prepared.json")
    done = read_json(marker)
    if spec.attempt and isinstance(done, dict):
        if done.get("attempt") == spec.attempt:
            return dict(done["result"])
        if done.get("attempt", 0) > spec.attempt:
            raise BadSpec(f"attempt: {spec.attempt} is over, attempt {done['attempt']} of {spec.job_id} has begun.")
    count = place_code(spec)
    if not spec.attempt:
        return {"code_files": count, "restored_generation": None, "restored_step": None}
    restored = _restore(spec)
    result = {"code_files": count, "restored_generation": restored.generation, "restored_step": restored.step}
    write_json(os.path.join(spec.state_dir, "restored.json"), {"attempt": spec.attempt, **result})
    write_json(marker, {"attempt": spec.attempt, "result": result}, durable=True)
    if restored.generation is not None:
        where = "already there" if restored.kept else f"{restored.bytes / 2**20:.1f} MiB restored"
        say(spec, f"starting from checkpoint generation {restored.generation}, step {restored.step}: {where}")
    return result


def _restore(spec: StageSpec) -> Any:
    from ffdl_ops.pod.staging.restore import restore
    from ffdl_ops.pod.staging.stores import tenant_store

    store = tenant_store()
    if spec.attempt > 1 and spec.checkpoint.enabled:
        _save_what_is_left(spec, store)
    return restore(spec, store)


def _save_what_is_left(spec: StageSpec, store: Any) -> None:
    """Upload what the attempt before wrote and could not upload (its node died, the store was down): it is newer."""
    from dataclasses import replace

    from ffdl_ops.pod.staging.checkpoints import CheckpointTaker

    CheckpointTaker(replace(spec, attempt=spec.attempt - 1), store).take_last()

"""`ffdl show`: everything that is known of a job, in the order in which a person asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ffdl_ops.adapters.ledger import AttemptRecord, JobRecord
from ffdl_ops.cli.listing import job_summary
from ffdl_ops.cli.options import as_json, job_argument, pass_session
from ffdl_ops.cli.output import emit_json, one_line, say, show_duration, show_facts, show_table, show_time
from ffdl_ops.cli.places import mlflow_url, results_uri, run_url
from ffdl_ops.cli.removal import deleted_at
from ffdl_ops.cli.session import Session

__all__ = ["commands", "job_story", "without_secrets"]

_SHORT = 80
_HIDDEN = ("user_name", "password")


@click.command()
@job_argument
@click.option("--manifest", "show_manifest", is_flag=True, help="Show the job's manifest too.")
@as_json
@pass_session
def show(session: Session, job: str, show_manifest: bool, as_json: bool) -> None:
    """Show all that is known of a job: state, stages, attempts, waits, leases, checkpoints, failure, links."""
    record = session.job(job)
    story = job_story(session, record)
    if as_json:
        emit_json(story)
        return
    show_facts(_facts(record, story))
    _failure(record.failure)
    _tables(session, story)
    if show_manifest:
        import yaml

        say(yaml.safe_dump(story["manifest"], sort_keys=False, allow_unicode=True))


def job_story(session: Session, job: JobRecord) -> dict[str, Any]:
    """A job and all that belongs to it, by name."""
    ledger = session.ledger
    deleted = deleted_at(ledger, job)
    return {
        **job_summary(job),
        "resume_count": job.resume_count,
        "halt_requested_by": job.halt_requested_by,
        "halt_requested_at": job.halt_requested_at,
        "deleted_at": deleted,
        "failure": job.failure,
        "links": {"airflow": _link(run_url, session, job), "mlflow": _link(mlflow_url, session, job)},
        "mlflow_run_id": job.mlflow_run_id,
        "results": _link(results_uri, session, job),
        "code_uri": job.code_uri,
        "dataset": job.dataset,
        "excluded_nodes": job.excluded_nodes,
        "stage_seconds": ledger.stage_seconds(job.job_id),
        "stages": ledger.stages(job.job_id),
        "transitions": ledger.transitions(job.job_id),
        "attempts": ledger.attempts(job.job_id),
        "waits": ledger.waits(job.job_id),
        "leases": ledger.leases(job.job_id),
        # The ledger's records of them outlive the objects; what can't be fetched any more is not shown.
        "checkpoints": [] if deleted else ledger.checkpoints(job.job_id),
        "manifest": without_secrets(job.manifest),
    }


def without_secrets(value: Any) -> Any:
    """A manifest without user names and passwords, should one ever have come into the ledger."""
    if isinstance(value, Mapping):
        return {key: "(hidden)" if key in _HIDDEN and item else without_secrets(item) for key, item in value.items()}
    return [without_secrets(item) for item in value] if isinstance(value, list) else value


def _link(of: Any, session: Session, job: JobRecord) -> str | None:
    """A link, or ``None`` where the installation can't say it (a tenant that is gone, an address that is not set)."""
    from ffdl_ops.core.errors import FfdlError

    try:
        return of(session, job)
    except FfdlError:
        return None


def _facts(job: JobRecord, story: dict[str, Any]) -> dict[str, object]:
    each = f", {job.gpus} × {job.gpu_type or 'any GPU'} each" if job.gpus else ", no GPUs"
    halted = f"by {one_line(job.halt_requested_by)} at {show_time(job.halt_requested_at)}"
    return {
        "job": job.job_id,
        "name": one_line(job.name),
        "tenant": job.tenant,
        "user": one_line(job.user),
        "state": job.state,
        "halt asked": halted if job.halt_requested_by else None,
        "resumed": f"{job.resume_count} times" if job.resume_count else None,
        "deleted": show_time(story["deleted_at"]) if story["deleted_at"] else None,
        "submitted": show_time(job.created_at),
        "last change": show_time(job.updated_at),
        "framework": job.framework,
        "size": f"{job.learners} learner{'s' * (job.learners != 1)}{each}",
        "run": f"{job.run_id} of {job.dag_id}",
        "results": story["results"],
        "code": job.code_uri,
        "Airflow": story["links"]["airflow"],
        "MLflow": story["links"]["mlflow"],
    }


def _failure(failure: Mapping[str, Any] | None) -> None:
    """What failed, the evidence for it, and what to do."""
    if not failure:
        return
    say("\nFailure")
    facts = {name: one_line(failure[name]) for name in ("class", "stage", "summary", "advice") if failure.get(name)}
    show_facts({f"  {name}": text for name, text in facts.items()})
    evidence = failure.get("evidence") or ()
    for one in [evidence] if isinstance(evidence, Mapping) else evidence:
        words = [f"{key}={value}" for key, value in _plain_facts(one).items() if value not in (None, "", False, [], {})]
        say(f"  evidence: {one_line(' '.join(words))[:600]}")


def _plain_facts(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Evidence without its nesting, what is short first: a traceback would push all else off the line."""
    facts: dict[str, Any] = {}
    for key, value in evidence.items():
        facts |= (
            {inner: facts.get(inner) or item for inner, item in value.items()}
            if isinstance(value, Mapping)
            else {key: value}
        )
    return dict(sorted(facts.items(), key=lambda fact: len(str(fact[1])) > _SHORT))


def _tables(session: Session, story: dict[str, Any]) -> None:
    now = session.now()

    def lasted(start: Any, end: Any) -> str:
        return show_duration(((end or now) - start).total_seconds())

    if story["stages"]:
        show_table(
            ["STAGE", ">TRY", "STARTED (UTC)", ">TOOK", "END"],
            [
                (one.stage, one.try_number, show_time(one.started_at), lasted(one.started_at, one.ended_at),
                 one.outcome or "running")
                for one in story["stages"]
            ],
            title="Stages",
        )  # fmt: skip
    if story["waits"]:
        show_table(
            ["CAUSE", "FROM (UTC)", ">TOOK", "WHY", "HELD BY"],
            [
                (one.cause, show_time(one.started_at), lasted(one.started_at, one.ended_at), one.message,
                 ", ".join(f"{held.job_id} ({held.tenant}: {held.gpus})" for held in one.holders))
                for one in story["waits"]
            ],
            title="Waits",
        )  # fmt: skip
    if story["attempts"]:
        show_table(
            [">ATTEMPT", ">LEARNERS", "STARTED (UTC)", ">TOOK", "FROM", "END", "NODES"],
            [
                (one.number, one.learners, show_time(one.started_at), lasted(one.started_at, one.ended_at),
                 _restored(one), _end(one), ", ".join(sorted({str(pod.get("node") or "?") for pod in one.pods.values()})))
                for one in story["attempts"]
            ],
            title="Attempts",
        )  # fmt: skip
    if story["leases"]:
        show_table(
            [">LEASE", "GPUS", "NODES", "GRANTED (UTC)", ">HELD", "RELEASED"],
            [
                (one.epoch, f"{one.gpus_total} × {one.gpu_type}" if one.gpus else "-",
                 ", ".join(sorted({place.node for place in one.placements})), show_time(one.granted_at),
                 lasted(one.granted_at, one.released_at), one.release_reason if one.released_at else "held")
                for one in story["leases"]
            ],
            title="Leases",
        )  # fmt: skip
    if story["checkpoints"]:
        from ffdl_ops.core.jobs.units import format_memory

        show_table(
            [">GENERATION", ">ATTEMPT", ">STEP", ">FILES", ">SIZE", "MADE (UTC)", "PROMOTED"],
            [
                (one.generation, one.attempt, one.step, one.files, format_memory(one.bytes), show_time(one.created_at),
                 "yes" if one.promoted else "")
                for one in story["checkpoints"]
            ],
            title="Checkpoints",
        )  # fmt: skip


def _restored(attempt: AttemptRecord) -> str:
    return "the beginning" if attempt.restored_generation is None else f"generation {attempt.restored_generation}"


def _end(attempt: AttemptRecord) -> str:
    failure = attempt.failure or {}
    return f"{attempt.outcome or 'running'}{': ' + str(failure['class']) if failure.get('class') else ''}"


commands = [show]

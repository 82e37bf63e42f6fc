"""`ffdl validate` and `ffdl schema`: what needs no platform that is up."""

from __future__ import annotations

from typing import Any

import click

from ffdl_ops.cli.exits import Exit
from ffdl_ops.cli.options import as_json, pass_session
from ffdl_ops.cli.output import emit_json, one_line, say
from ffdl_ops.cli.session import Session
from ffdl_ops.cli.submit import describe, manifest_options

__all__ = ["commands"]


@click.command()
@manifest_options
@as_json
@pass_session
def validate(session: Session, as_json: bool, **flags: Any) -> int:
    """Check a manifest without submitting it.

    Takes what `submit` takes, and finds every problem at once: of the manifest's own rules, and of the tenant's limits.
    What only the cluster and the bucket know (nodes, credentials, data) is checked when the job is submitted.
    """
    from ffdl_ops.core.jobs.manifest import ManifestErrors

    tenant = session.tenant(flags["tenant"])
    try:
        manifest = describe(session, tenant, flags)
    except ManifestErrors as errors:
        if not as_json:
            raise
        emit_json({"valid": False, "tenant": tenant.name, "problems": errors.problems})
        return Exit.REFUSED
    if as_json:
        shown = manifest.redacted().to_dict()
        emit_json({"valid": True, "tenant": tenant.name, "problems": [], "manifest": shown})
    else:
        from ffdl_ops.core.tenancy.defaults import with_defaults

        size = _size(with_defaults(manifest, tenant, session.settings.platform))
        say(f"{one_line(manifest.name)} is valid for tenant {tenant.name}: {size}.")
        if manifest.has_inline_credentials:
            say("It holds credentials: `ffdl submit` stores them as a secret; don't paste it into Airflow's form.")
    return Exit.OK


@click.command()
def schema() -> None:
    """Print the manifest's JSON Schema, for editors and other programs."""
    from ffdl_ops.core.jobs.manifest import Manifest

    emit_json(Manifest.json_schema())


def _size(manifest: Any) -> str:
    from ffdl_ops.core.jobs.units import format_memory

    few, many = manifest.learners_min, manifest.learners_max
    learners = f"{few} learner{'s' * (few != 1)}" if few == many else f"{few} to {many} learners"
    gpus = f"{manifest.gpus} × {manifest.gpu_type or 'any GPU'}, " if manifest.gpus else ""
    return f"{learners}, each {gpus}{manifest.cpu_millis / 1000:g} CPUs, {format_memory(manifest.memory_bytes)}"


commands = [validate, schema]

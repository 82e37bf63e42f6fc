"""`ffdl submit`: checks the job, puts code and credentials where only the tenant can read them, triggers its DAG."""

from __future__ import annotations

import secrets
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ffdl_ops.cli.building import build, read_manifest
from ffdl_ops.cli.exits import exit_of_state
from ffdl_ops.cli.options import as_json, pass_session, tenant_option, timeout_option
from ffdl_ops.cli.output import emit_json, say
from ffdl_ops.core.errors import UserError

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.cli.follow import Followed
    from ffdl_ops.cli.session import Session
    from ffdl_ops.core.jobs.manifest import Manifest
    from ffdl_ops.core.tenancy.tenants import Tenant

__all__ = ["commands", "manifest_options"]


def manifest_options(function: Any) -> Any:
    """The options that describe a job, for `submit` and `validate`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_OPTIONS = (
    click.argument("file", metavar="[FILE]", required=False),
    click.option("--name", help="What people call the job."),
    click.option("--example", metavar="NAME", help="A ready-made training, such as digits-pytorch."),
    click.option("--framework", metavar="NAME", help="pytorch, tensorflow, or custom with --image."),
    click.option("--image", metavar="IMAGE", help="A container image of your own, NAME:TAG."),
    click.option("--command", metavar="COMMAND", help="The shell command that starts your program."),
    click.option("--code", metavar="PLACE", help="Your program: a directory, a zip file, a script, or s3://BUCKET/….zip."),
    click.option("--learners", metavar="N|MIN-MAX", help="How many processes train together."),
    click.option("--gpus", metavar="N", help="GPUs per learner."),
    click.option("--gpu-type", metavar="TYPE", help="Such as V100."),
    click.option("--cpus", metavar="N", help="CPUs per learner, such as 0.5 or 500m."),
    click.option("--memory", metavar="SIZE", help="Memory per learner, such as 8Gb or 16Gi."),
    click.option("--data", metavar="BUCKET[/PREFIX]", help="The training data."),
    click.option("--results", metavar="BUCKET[/PREFIX]", help="Where results go, if not to the job's own place."),
    click.option("--priority", metavar="N", help="Higher goes first."),
    click.option("--set", "sets", multiple=True, metavar="FIELD=VALUE", help="Any other field: --set checkpoint.keep=5."),
    tenant_option,
)  # fmt: skip


@click.command()
@manifest_options
@click.option("-f", "--follow", is_flag=True, help="Wait until the job ends; the exit code is its outcome.")
@timeout_option
@as_json
@pass_session
def submit(session: Session, follow: bool, timeout: float | None, as_json: bool, **flags: Any) -> int:
    """Submit a training job.

    FILE is a manifest in YAML (- for standard input); options replace or complete what it says. The job is checked here
    first, and again by the platform. Credentials in the manifest are stored as a secret of the tenant and not sent along.
    """
    tenant = session.tenant(flags["tenant"])
    manifest = describe(session, tenant, flags)
    manifest = place_code(session, tenant, manifest, flags["code"])
    manifest = hide_credentials(session, tenant, manifest)
    run = trigger(session, tenant, manifest)
    about = {**asdict(run), "tenant": tenant.name, "url": session.airflow.run_url(run.dag_id, run.run_id)}
    about.pop("incarnation")
    if not follow:
        if as_json:
            emit_json(about)
        else:
            _announce(about)
            say(f"Watch it with `ffdl show {run.job_id}` or `ffdl logs -f {run.job_id}`.")
        return 0
    _announce(about, err=as_json)
    job = _follow(session, run, timeout, as_json)
    if as_json:
        emit_json({**about, "state": job.state, "outcome": job.outcome, "failure": job.failure})
    return exit_of_state(job.state)


def describe(session: Session, tenant: Tenant, flags: dict[str, Any]) -> Manifest:
    """The manifest that file and options describe, valid for this tenant.

    :raises ManifestErrors: with all problems.
    """
    from ffdl_ops.cli.checking import tenant_problems
    from ffdl_ops.core.jobs.manifest import ManifestErrors, load_manifest

    if flags.get("code") == "":
        raise UserError("--code is empty; give a directory, a zip file, a script, or s3://BUCKET/….zip.")
    mapping = build(read_manifest(flags["file"]) if flags.get("file") else {}, flags, flags["sets"])
    if flags.get("code"):
        mapping["code"] = flags["code"] if flags["code"].startswith("s3://") else _future_uri(tenant, flags["code"])
    manifest = load_manifest(mapping)
    problems = tenant_problems(manifest, tenant, session.settings.platform)
    if problems:
        raise ManifestErrors(problems)
    return manifest


def place_code(session: Session, tenant: Tenant, manifest: Manifest, code: str | None) -> Manifest:
    """Store the code in the tenant's bucket, once by its digest, and name it in the manifest."""
    if not code or code.startswith("s3://"):
        return manifest
    from ffdl_ops.adapters.storage.code import upload_code

    uri = upload_code(session.store(tenant.name), tenant.bucket, code)
    return manifest.model_copy(update={"code": uri})


def hide_credentials(session: Session, tenant: Tenant, manifest: Manifest) -> Manifest:
    """Move credentials out of the manifest, into a secret that only the tenant's pods can read: a run's configuration is
    visible in Airflow.
    """
    if not manifest.has_inline_credentials:
        return manifest
    from ffdl_ops.adapters.cluster.secrets import put_connection_secret

    connection = manifest.data_stores[0].connection
    values = connection.model_dump(include={"auth_url", "user_name", "password", "region"}) if connection else {}
    return manifest.with_secret(put_connection_secret(session.settings, tenant.name, values))


def trigger(session: Session, tenant: Tenant, manifest: Manifest) -> Followed:
    """Start the run of the tenant's DAG that is this job."""
    import yaml

    from ffdl_ops.cli.follow import Followed
    from ffdl_ops.core.jobs.ids import dag_id, job_id

    dag = dag_id(tenant.name)
    run_id = f"cli-{session.now():%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
    text = yaml.safe_dump(manifest.to_dict(), sort_keys=False, allow_unicode=True)
    session.airflow.trigger(dag, run_id, {"manifest": text, "submitted_by": session.user})
    return Followed(dag, run_id, job_id(dag, run_id))


def _future_uri(tenant: Tenant, code: str) -> str:
    """The address that the code will have; packing it finds what is wrong with it."""
    from ffdl_ops.adapters.storage.code import pack_code

    return f"s3://{tenant.bucket}/code/{pack_code(code)[1]}.zip"


def _announce(about: dict[str, Any], *, err: bool = False) -> None:
    say(f"Submitted {about['job_id']} (run {about['run_id']} of {about['dag_id']}).", err=err)
    say(about["url"], err=err)


def _follow(session: Session, run: Followed, timeout: float | None, err: bool) -> JobRecord:
    from ffdl_ops.cli.follow import follow, summarise

    try:
        job = follow(session, run, timeout_s=timeout, err=err)
    except KeyboardInterrupt:
        say(f"The job goes on; `ffdl halt {run.job_id}` stops it.", err=True)
        raise
    summarise(session, job, err=err)
    return job


commands = [submit]

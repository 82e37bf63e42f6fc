"""`ffdl download`: a job's things as a directory, there whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ffdl_ops.cli.exits import Refusal
from ffdl_ops.cli.options import as_json, job_argument, pass_session
from ffdl_ops.cli.output import emit_json, say
from ffdl_ops.cli.places import bucket_of, logs_prefix, results_place
from ffdl_ops.cli.session import Session
from ffdl_ops.core.errors import UserError
from ffdl_ops.core.jobs.states import TERMINAL

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.adapters.storage.store import ObjectStore

__all__ = ["commands", "replace_directory"]

WHAT = ("model", "logs", "code", "checkpoint")


@dataclass(frozen=True)
class _Wanted:
    """Objects to download, all in one bucket: for each, its path, key and size in bytes."""

    store: ObjectStore
    bucket: str
    files: list[tuple[str, str, int]]


@click.command()
@job_argument
@click.argument("what", type=click.Choice(WHAT), default="model")
@click.option(
    "--to", "directory", type=click.Path(path_type=Path), help="The directory to make.  [default: JOB-ID/WHAT]"
)
@click.option("--force", is_flag=True, help="Replace the directory if there is one.")
@click.option(
    "--generation", type=click.IntRange(min=1), metavar="N", help="Which checkpoint.  [default: newest complete]"
)
@as_json
@pass_session
def download(
    session: Session, job: str, what: str, directory: Path | None, force: bool, generation: int | None, as_json: bool
) -> None:
    """Download a job's model (all its results), logs, code or checkpoint into a directory.

    The directory appears when everything has arrived and was verified; one that is there already is kept unless --force is
    given.
    """
    record = session.job(job)
    target = directory or Path(record.job_id) / what
    check_target(target, force)
    wanted = _find(session, record, what, generation)
    size = fetch(wanted, target, force)
    if as_json:
        count = len(wanted.files)
        emit_json({"job_id": record.job_id, "what": what, "directory": str(target), "files": count, "bytes": size})
        return
    from ffdl_ops.core.jobs.units import format_memory

    files = f"{len(wanted.files)} file{'s' * (len(wanted.files) != 1)}"
    say(f"{target}: {files}, {format_memory(size)}")


def check_target(target: Path, force: bool) -> None:
    """Make sure that nothing of value is in the way.

    :raises Refusal: when something is there, and may not be replaced.
    """
    if not target.exists() and not target.is_symlink():
        return
    if not target.is_dir() or target.is_symlink():
        raise Refusal(f"{target} is there and is not a directory; choose another one with --to.")
    if not any(target.iterdir()):
        return
    if not force:
        raise Refusal(f"{target} is there and not empty; choose another one with --to, or replace it with --force.")
    real = target.resolve()
    here = Path.cwd().resolve()
    if here.is_relative_to(real) or Path.home().resolve().is_relative_to(real) or real.is_mount():
        raise Refusal(f"{target} is or holds the directory that you are in, or your home; --force does not replace it.")


def fetch(wanted: _Wanted, target: Path, force: bool) -> int:
    """Download into a new directory beside the target, then give it the target's name.

    :returns: bytes.
    """
    from ffdl_ops.adapters.storage.transfer import Download
    from ffdl_ops.adapters.storage.transfer import download as transfer

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise UserError(
            f"{target.parent} can't be written: {error.strerror}; choose another place with --to."
        ) from None
    try:
        items = [Download(wanted.bucket, key, size, str(new / path)) for path, key, size in wanted.files]
        total = transfer(wanted.store, items)
        mask = os.umask(0)
        os.umask(mask)
        new.chmod(0o777 & ~mask)
        check_target(target, force)
        replace_directory(new, target)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return total


def replace_directory(new: Path, target: Path) -> None:
    """Give the new directory the target's name; an old one of this name is removed once the new one has it."""
    if not target.exists():
        new.rename(target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
    target.rename(old)
    try:
        new.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _find(session: Session, job: JobRecord, what: str, generation: int | None) -> _Wanted:
    """What to download.

    :raises DataMissing: when there is nothing of it.
    """
    if generation is not None and what != "checkpoint":
        raise click.UsageError("--generation is for checkpoints alone.")
    bucket = bucket_of(session, job)
    if what == "checkpoint":
        return _checkpoint(session, job, bucket, generation)
    if what == "code":
        return _code(session, job)
    if what == "logs":
        return _below(session.store(job.tenant), bucket, logs_prefix(job.job_id), _absent(job, "logs"))
    from ffdl_ops.core.jobs.manifest import load_manifest

    results_bucket, prefix = results_place(session, job)
    store = session.results_store(job.tenant, load_manifest(job.manifest))
    return _below(store, results_bucket, prefix, _absent(job, "results"))


def _absent(job: JobRecord, what: str) -> str:
    if job.state in TERMINAL:
        return f"Job {job.job_id} ({job.state}) has stored no {what}."
    return f"Job {job.job_id} is {job.state}; its {what} are stored when it ends."


def _below(store: ObjectStore, bucket: str, prefix: str, absent: str) -> _Wanted:
    from ffdl_ops.adapters.storage.keys import file_name

    found = [one for one in store.list(bucket, prefix) if not one.key.endswith("/")]
    files = [(file_name(one.key, prefix), one.key, one.size) for one in found]
    return _Wanted(store, bucket, _checked(files, absent))


def _code(session: Session, job: JobRecord) -> _Wanted:
    from ffdl_ops.adapters.storage.errors import DataMissing

    uri = job.code_uri or job.manifest.get("code")
    if not uri:
        example = job.manifest.get("example")
        source = f"it ran the platform's example {example}" if example else "its image brings the program"
        raise DataMissing(f"Job {job.job_id} was submitted without code: {source}.")
    bucket, _, key = str(uri).removeprefix("s3://").partition("/")
    store = session.store(job.tenant)
    size = store.size(bucket, key)
    if size is None:
        raise DataMissing(f"The code of {job.job_id} is no longer at {uri}.")
    return _Wanted(store, bucket, [("code.zip", key, size)])


def _checkpoint(session: Session, job: JobRecord, bucket: str, generation: int | None) -> _Wanted:
    from ffdl_ops.adapters.storage.checkpoints import list_generations
    from ffdl_ops.adapters.storage.errors import DataMissing
    from ffdl_ops.adapters.storage.keys import file_name

    store = session.store(job.tenant)
    complete = {one.number: one for one in list_generations(store, bucket, job.job_id) if one.complete}
    if not complete:
        raise DataMissing(f"Job {job.job_id} ({job.state}) has no complete checkpoint.")
    number = generation or max(complete)
    if number not in complete:
        there = ", ".join(str(one) for one in sorted(complete))
        raise DataMissing(f"Job {job.job_id} has no complete checkpoint of generation {number}; there are {there}.")
    files = [(file_name(one.path), one.key, one.size) for one in complete[number].stored]
    return _Wanted(store, bucket, _checked(files, f"Checkpoint {number} of {job.job_id} holds no files."))


def _checked(files: Iterable[tuple[str, str, int]], absent: str) -> list[tuple[str, str, int]]:
    from ffdl_ops.adapters.storage.errors import DataMissing
    from ffdl_ops.adapters.storage.keys import check_collisions

    listed = list(files)
    if not listed:
        raise DataMissing(absent)
    check_collisions(path for path, _, _ in listed)
    return listed


commands = [download]

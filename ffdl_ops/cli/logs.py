"""`ffdl logs`: from the cluster's pods while they live, from the bucket after the end."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ffdl_ops.cli.loglines import LogFile, Seen, as_record, log_file_of, merged
from ffdl_ops.cli.options import as_json, job_argument, pass_session
from ffdl_ops.cli.output import clean, one_line, plain, say
from ffdl_ops.cli.places import bucket_of, logs_prefix
from ffdl_ops.cli.session import Session
from ffdl_ops.core.errors import TemporaryError
from ffdl_ops.core.jobs.states import TERMINAL, JobState

if TYPE_CHECKING:
    from ffdl_ops.adapters.ledger import JobRecord
    from ffdl_ops.adapters.storage.store import ObjectInfo

__all__ = ["commands"]

_POLL_S = 1.0
_OUTAGE_S = 120.0
# Before, there is nobody whose output could be followed.
_PRINTING = TERMINAL | {JobState.PROCESSING, JobState.STORING}


@click.command()
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@click.option("--learner", type=click.IntRange(min=1), metavar="N", help="Only this learner's, counted from 1.")
@click.option("--attempt", type=click.IntRange(min=0), metavar="N", help="Only this attempt's (from the bucket).")
@as_json
@pass_session
def logs(session: Session, job: str, follow: bool, learner: int | None, attempt: int | None, as_json: bool) -> None:
    """Show what a job's learners print.

    Each line begins with the learner's own time (UTC) and its number. At a terminal, what would steer it is left out; into a
    pipe lines go as they are. With --json each line is one JSON object.
    """
    record = session.job(job)
    show = _printer(as_json)
    shown = 0
    if follow and record.state not in TERMINAL:
        shown = _follow(session, record, learner, show)
    elif record.state in TERMINAL or attempt is not None:
        shown = _show(_stored(session, record, learner, attempt), show)
    else:
        seen = Seen()
        earlier = (line for line in _stored(session, record, learner, None) if seen.is_new(line))
        shown = _show(earlier, show)
        shown += _show((line for line in _living(session, record, learner) if seen.is_new(line)), show)
    if not shown:
        _explain(session, record)


def _printer(as_json: bool) -> Callable[[str], None]:
    if as_json:
        return lambda line: click.echo(json.dumps(plain(as_record(line))))
    if sys.stdout.isatty():
        return lambda line: click.echo(clean(line))
    return lambda line: click.echo(line, color=True)


def _show(lines: Iterator[str], show: Callable[[str], None]) -> int:
    count = 0
    for line in lines:
        show(line)
        count += 1
    return count


def _follow(session: Session, job: JobRecord, learner: int | None, show: Callable[[str], None]) -> int:
    """Show lines as they come, over all attempts, until the job has ended; then what only the bucket has.

    A stream that breaks is opened again; what it repeats is not shown again.
    """
    from ffdl_ops.adapters.cluster.logs import stream_job_logs

    seen, shown, state = Seen(), 0, ""
    last_answer = time.monotonic()
    while True:
        try:
            current = session.ledger.job(job.job_id) or job
            if current.state != state and not shown:
                say(f"{job.job_id} is {current.state}.", err=True)
            state = current.state
            lines = stream_job_logs(session.settings, current, learner) if current.state in _PRINTING else iter(())
            shown += _show((line for line in lines if seen.is_new(line)), show)
            if current.state in TERMINAL:
                rest = _stored(session, current, learner, None)
                return shown + _show((line for line in rest if seen.is_new(line)), show)
            last_answer = time.monotonic()
        except TemporaryError:
            if time.monotonic() - last_answer > _OUTAGE_S:
                raise
        time.sleep(_POLL_S)


def _living(session: Session, job: JobRecord, learner: int | None) -> Iterator[str]:
    """What the job's pods have printed so far."""
    from ffdl_ops.adapters.cluster.client import Cluster
    from ffdl_ops.adapters.cluster.gang import gang_selector
    from ffdl_ops.adapters.cluster.observe import pod_view
    from ffdl_ops.core.jobs.ids import namespace

    cluster = Cluster(session.settings.kubeconfig)
    where = namespace(job.tenant)
    with tempfile.TemporaryDirectory(prefix="ffdl-logs-") as folder:
        files = []
        for pod in cluster.pods(where, gang_selector(job.job_id)):
            view = pod_view(pod)
            if learner is None or view.rank == learner - 1:
                files.append(Path(folder) / view.name)
                files[-1].write_text(cluster.pod_log(where, view.name), encoding="utf-8")
        yield from merged(files)


def _stored(session: Session, job: JobRecord, learner: int | None, attempt: int | None) -> Iterator[str]:
    """The lines in the bucket, attempt by attempt."""
    store, bucket, prefix = session.store(job.tenant), bucket_of(session, job), logs_prefix(job.job_id)
    attempts: dict[int, list[tuple[LogFile, ObjectInfo]]] = {}
    for item in store.list(bucket, f"{prefix}attempt-"):
        log = log_file_of(item.key.removeprefix(prefix))
        if log and learner in (None, log.learner) and attempt in (None, log.attempt):
            attempts.setdefault(log.attempt, []).append((log, item))
    for _, group in sorted(attempts.items()):
        with tempfile.TemporaryDirectory(prefix="ffdl-logs-") as folder:
            files = []
            for log, item in sorted(group, key=lambda one: one[0]):
                files.append(Path(folder) / f"learner-{log.learner}.log")
                store.get_file(bucket, item.key, files[-1])
            yield from merged(files)


def _explain(session: Session, job: JobRecord) -> None:
    """Why there is nothing to show."""
    if job.state not in TERMINAL:
        say(f"Nothing yet: {job.job_id} is {job.state}. `ffdl logs -f {job.job_id}` waits for it.", err=True)
        return
    say(f"No log of {job.job_id} is stored; it is {job.state}.", err=True)
    if job.failure:
        say(one_line(f"{job.failure.get('class')}: {job.failure.get('summary')}"), err=True)


commands = [logs]

"""`ffdl tenants`: where each tenant stands. `ffdl tenants apply`: the cluster as config/tenants.yaml says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ffdl_ops.cli.exits import Exit
from ffdl_ops.cli.options import as_json, pass_session
from ffdl_ops.cli.output import emit_json, say, show_duration, show_table
from ffdl_ops.cli.session import Session

if TYPE_CHECKING:
    from ffdl_ops.adapters.cluster.tenants import Applied
    from ffdl_ops.core.tenancy.standing import GpuStanding, TenantStanding

__all__ = ["commands"]

_DONE = {"create": "created", "update": "changed"}
_WOULD = {"create": "to be created", "update": "to be changed"}


@click.group(invoke_without_command=True)
@as_json
@click.pass_context
def tenants(ctx: click.Context, as_json: bool) -> None:
    """Show where each tenant stands: quota, held, reserved, borrowed, lent, and what its jobs wait for.

    ABOVE QUOTA marks a tenant that holds more than its quota and than what others lend it. `apply` brings the cluster to
    what config/tenants.yaml says.
    """
    if ctx.invoked_subcommand is not None:
        if as_json:
            ctx.fail(f"Put --json behind `{ctx.invoked_subcommand}`.")
        return
    from ffdl_ops.core.tenancy.standing import standings

    session = ctx.find_object(Session) or Session()
    waiting = [(one.request, one.cause) for one in session.ledger.queue()]
    grants = [lease.grant for lease in session.ledger.live_leases()]
    kept = session.ledger.reservations()
    found = standings(session.settings.tenants, grants, waiting, session.now(), kept)
    if as_json:
        emit_json(found)
    else:
        _show_standings(found)


@tenants.command()
@click.option("--dry-run", is_flag=True, help="Only show the difference; exits with 5 when there is one.")
@as_json
@pass_session
def apply(session: Session, dry_run: bool, as_json: bool) -> None:
    """Give each tenant its namespace, limits, network policies, account, and the platform's rights there.

    What is as it should be is left as it is; nothing is deleted. It needs an administrator's kubeconfig.
    """
    from ffdl_ops.adapters.cluster.tenants import apply_tenants

    applied = apply_tenants(session.settings, dry_run=dry_run)
    if as_json:
        emit_json(
            {
                "dry_run": dry_run,
                "changes": applied.changed,
                "unchanged": len(applied.changes) - len(applied.changed),
                "left_alone": applied.left_alone,
                "notes": applied.notes,
            }
        )
    else:
        _show(applied, dry_run)
    if dry_run and applied.changed:
        raise click.exceptions.Exit(Exit.DIFFERS)


def _show_standings(found: list[TenantStanding]) -> None:
    show_table(
        ["TENANT", "COHORT", ">WEIGHT", "GPU TYPE", ">QUOTA", ">HELD", ">RESERVED", ">BORROWED", ">LENT", ">FREE TO BORROW",
         ">RUNNING", ">QUEUED", "WAITS (LONGEST)", "NOTE"],
        [
            (one.tenant, one.cohort, f"{one.weight:g}", row.gpu_type or "unnamed", row.quota, row.held, row.reserved,
             row.borrowed, row.lent, row.free_to_borrow, row.running, row.queued, _waits(row), _note(one, row))
            for one in found
            for row in one.gpus
        ],
        title="Tenants (GPUs and jobs)",
    )  # fmt: skip
    bare = [one.tenant for one in found if not one.gpus]
    if bare:
        say(f"Without a GPU quota, and idle: {', '.join(bare)}.")


def _waits(row: GpuStanding) -> str:
    return ", ".join(f"{one.cause or 'not looked at'} {one.jobs} ({show_duration(one.longest_s)})" for one in row.waits)


def _note(tenant: TenantStanding, row: GpuStanding) -> str:
    notes = [] if tenant.configured else ["not configured any more"]
    if row.above_quota:
        notes.append(f"ABOVE QUOTA by {row.above_quota}")
    return ", ".join(notes)


def _show(applied: Applied, dry_run: bool) -> None:
    changed, unchanged = applied.changed, len(applied.changes) - len(applied.changed)
    if changed:
        words = _WOULD if dry_run else _DONE
        show_table(
            ["TENANT", "KIND", "OBJECT", "WHAT"],
            [
                (one.tenant, one.kind, f"{one.namespace}/{one.name}" if one.namespace else one.name, words[one.action])
                for one in changed
            ],
        )
    if dry_run:
        for one in changed:
            say(f"{one.difference}\n")
    if applied.left_alone:
        show_table(
            ["LEFT ALONE", "WHY", "TO DELETE IT"],
            [
                (f"{one.kind} {one.namespace + '/' if one.namespace else ''}{one.name}", one.why, one.remove_with)
                for one in applied.left_alone
            ],
        )
    for note in applied.notes:
        say(f"Note: {note}")
    said = f"{len(changed)} {'would be changed' if dry_run else 'changed'}" if changed else "Nothing to do"
    say(f"{said}; {unchanged} objects are as they should be.")


commands: list[click.Command] = [tenants]

"""The audit, and the closing of the platform: who ordered or decided what, and when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from ffdl_ops.adapters.ledger.models import AuditLine, Closure, TenantLimits
from ffdl_ops.adapters.ledger.part import LedgerPart
from ffdl_ops.adapters.ledger.records import AuditRecord

__all__ = ["AIRFLOW", "PLATFORM", "SCHEDULER", "Audit", "write_audit"]

PLATFORM = "platform"
"""The closure under which nothing starts at all."""
SCHEDULER = "scheduler"
"""The actor of what a pass decides."""
AIRFLOW = "airflow"
"""The actor of what somebody orders with Airflow's own buttons, which do not say whose hand it was."""


def write_audit(
    session: Session,
    actor: str,
    action: str,
    now: datetime,
    words: str,
    *,
    tenant: str | None = None,
    job_id: str | None = None,
) -> None:
    """Add a line, within the transaction that does what it tells of."""
    session.add(AuditLine(at=now, actor=actor, action=action, tenant=tenant, job_id=job_id, words=words))


class Audit(LedgerPart):
    """The part of the ledger that keeps the audit and the closure."""

    def audit(
        self,
        actor: str,
        action: str,
        now: datetime,
        words: str,
        *,
        tenant: str | None = None,
        job_id: str | None = None,
    ) -> None:
        """Add a line of its own."""
        with self._transaction() as session:
            write_audit(session, actor, action, now, words, tenant=tenant, job_id=job_id)

    def audit_lines(self, *, job_id: str | None = None, limit: int = 100) -> list[AuditRecord]:
        """The newest lines, the oldest of them first.

        :param job_id: only of this job.
        """
        query = select(AuditLine).order_by(AuditLine.id.desc()).limit(limit)
        if job_id is not None:
            query = query.where(AuditLine.job_id == job_id)
        with self._transaction() as session:
            return [AuditRecord.of(row) for row in session.scalars(query)][::-1]

    def note_limits(self, limits: Mapping[str, Mapping[str, Any]], now: datetime) -> list[str]:
        """Compare the tenants' limits with those seen last, and put every change into the audit.

        :param limits: by tenant, plain values.
        :returns: the tenants whose limits have changed (a new tenant's have; a removed one's are gone).
        """
        with self._transaction() as session:
            self._lock_queue(session)
            seen = {row.tenant: row for row in session.scalars(select(TenantLimits))}
            changed = []
            for tenant in sorted({*limits, *seen}):
                before = seen[tenant].limits if tenant in seen else None
                after = dict(limits[tenant]) if tenant in limits else None
                if before == after:
                    continue
                changed.append(tenant)
                words = _difference(before, after)
                write_audit(session, "configuration", "limits", now, words, tenant=tenant)
                if after is None:
                    session.delete(seen[tenant])
                else:
                    session.merge(TenantLimits(tenant=tenant, limits=after, at=now))
            return changed

    def close_platform(self, reason: str, actor: str, now: datetime) -> None:
        """Let nothing start from now on; closed already, it is closed for the new reason."""
        with self._transaction() as session:
            self._lock_queue(session)
            session.merge(Closure(scope=PLATFORM, reason=reason, closed_by=actor, at=now))
            write_audit(session, actor, "close", now, reason)

    def open_platform(self, actor: str, now: datetime) -> bool:
        """Let jobs start again.

        :returns: whether it was closed.
        """
        with self._transaction() as session:
            self._lock_queue(session)
            was = session.scalar(delete(Closure).where(Closure.scope == PLATFORM).returning(Closure.scope))
            if was is not None:
                write_audit(session, actor, "open", now, "jobs may start again")
            return was is not None

    def closed(self) -> str | None:
        """Why nothing may start, if so."""
        with self._transaction() as session:
            return session.scalar(select(Closure.reason).where(Closure.scope == PLATFORM))


def _difference(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    if before is None:
        return "a new tenant"
    if after is None:
        return "removed from the configuration"
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return "; ".join(f"{name}: {before.get(name)} -> {after.get(name)}" for name in names)

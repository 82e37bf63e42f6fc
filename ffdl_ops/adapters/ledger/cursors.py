"""Cursors of the readers of a job's output, and the right to be the one reader that writes its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import case, or_, select
from sqlalchemy.dialects.postgresql import insert

from ffdl_ops.adapters.ledger.models import Cursor, Follower
from ffdl_ops.adapters.ledger.part import LedgerPart

__all__ = ["Cursors"]


class Cursors(LedgerPart):
    """The part of the ledger that keeps how far readers have come."""

    def cursor(self, job_id: str, name: str) -> dict[str, Any] | None:
        """What was saved last under this name."""
        with self._transaction() as session:
            row = session.get(Cursor, (job_id, name))
            return dict(row.value) if row else None

    def save_cursor(self, job_id: str, name: str, value: Mapping[str, Any], epoch: int) -> bool:
        """Save how far a reader has come.

        :param epoch: the follower's, from :meth:`claim_follower`; 0 for what belongs to no follower.
        :returns: whether it was saved: a follower that has lost its place to a later one saves nothing any more.
        """
        with self._transaction() as session:
            self._locked(session, job_id)
            if epoch:
                current = select(Follower.epoch).where(Follower.job_id == job_id).with_for_update()
                if session.scalar(current) != epoch:
                    return False
            put = insert(Cursor).values(job_id=job_id, name=name, value=dict(value), epoch=epoch)
            put = put.on_conflict_do_update(
                index_elements=["job_id", "name"],
                set_={"value": put.excluded.value, "epoch": put.excluded.epoch},
                where=Cursor.epoch <= put.excluded.epoch,
            )
            return session.scalar(put.returning(Cursor.epoch)) is not None

    def claim_follower(self, job_id: str, owner: str, now: datetime, ttl_s: float) -> int | None:
        """Claim, or keep, the right to follow the job's output.

        :param owner: who claims; the same owner keeps its epoch by claiming again in time.
        :param ttl_s: seconds for which the right lasts unless it is claimed again.
        :returns: the epoch to save cursors under; ``None`` while another owner has the right.
        """
        claim = insert(Follower).values(job_id=job_id, owner=owner, epoch=1, expires_at=now + timedelta(seconds=ttl_s))
        same = Follower.owner == claim.excluded.owner
        claim = claim.on_conflict_do_update(
            index_elements=["job_id"],
            set_={
                "owner": claim.excluded.owner,
                "epoch": case((same, Follower.epoch), else_=Follower.epoch + 1),
                "expires_at": claim.excluded.expires_at,
            },
            where=or_(same, Follower.expires_at <= now),
        )
        with self._transaction() as session:
            self._locked(session, job_id)
            return session.scalar(claim.returning(Follower.epoch))

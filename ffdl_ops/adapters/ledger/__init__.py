"""The durable record of what the platform has promised, started and seen, in a PostgreSQL database of its own.

:class:`Ledger` is the whole of it; what it gives and takes are the records. Only this package speaks SQL. Nothing in it
looks at the clock: the present moment is passed in.
"""

from __future__ import annotations

from ffdl_ops.adapters.ledger.backup import backup_database, restore_database
from ffdl_ops.adapters.ledger.errors import LeaseLost, LedgerUnavailable, NotInLedger, NotMigrated, Refused
from ffdl_ops.adapters.ledger.ledger import Ledger
from ffdl_ops.adapters.ledger.records import (
    AttemptRecord,
    AuditRecord,
    CheckpointRecord,
    JobRecord,
    LeaseRecord,
    NewJob,
    QueuedRecord,
    QueueState,
    StageRecord,
    TransitionRecord,
    WaitRecord,
)

__all__ = [
    "AttemptRecord",
    "AuditRecord",
    "CheckpointRecord",
    "JobRecord",
    "LeaseLost",
    "LeaseRecord",
    "Ledger",
    "LedgerUnavailable",
    "NewJob",
    "NotInLedger",
    "NotMigrated",
    "QueueState",
    "QueuedRecord",
    "Refused",
    "StageRecord",
    "TransitionRecord",
    "WaitRecord",
    "backup_database",
    "restore_database",
]

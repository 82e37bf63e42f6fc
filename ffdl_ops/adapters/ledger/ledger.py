"""The ledger as one thing: its parts over one database."""

from __future__ import annotations

from ffdl_ops.adapters.ledger.attempts import Attempts
from ffdl_ops.adapters.ledger.audit import Audit
from ffdl_ops.adapters.ledger.checkpoints import Checkpoints
from ffdl_ops.adapters.ledger.cursors import Cursors
from ffdl_ops.adapters.ledger.engine import Database
from ffdl_ops.adapters.ledger.jobs import Jobs
from ffdl_ops.adapters.ledger.leases import Leases
from ffdl_ops.adapters.ledger.stages import Stages
from ffdl_ops.adapters.ledger.waits import Waits

__all__ = ["Ledger"]


class Ledger(Jobs, Attempts, Leases, Waits, Checkpoints, Stages, Cursors, Audit):
    """The durable record of jobs, attempts, leases, waits, checkpoints and stages.

    Safe to share between threads, and across a fork. Every writer is idempotent: called twice, it has the effect of one
    call. Every method is one short transaction.

    :param url: `postgresql+psycopg2://USER:PASSWORD@HOST:PORT/DATABASE`, or `…://USER@/DATABASE?host=SOCKET_DIR`.
    :raises LedgerUnavailable: from every method, while the database can't be reached.
    """

    def __init__(self, url: str) -> None:
        self._database = Database(url)

    def migrate(self, revision: str = "head") -> None:
        """Bring the tables to this version, keeping what is in them; nothing happens when they are.

        :param revision: the version to bring them to.
        """
        from ffdl_ops.adapters.ledger.schema import upgrade

        upgrade(self._database, revision)

    def revision(self) -> str | None:
        """The version of the tables; ``None`` before the first migration."""
        from ffdl_ops.adapters.ledger.schema import current

        return current(self._database)

    def close(self) -> None:
        """Close this process's connections; the next use opens new ones."""
        self._database.close()

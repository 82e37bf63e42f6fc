"""Connections to the ledger's database: few, checked before use, never shared across a fork, with bounded waits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import Session

from ffdl_ops.adapters.ledger.errors import described
from ffdl_ops.adapters.ledger.values import dump_json
from ffdl_ops.core.errors import PermanentError

__all__ = ["Database", "normal_url"]

_CONNECT_TIMEOUT_S = 5
_POOL_WAIT_S = 20
# A process that hangs in the middle of a transaction must not hold the queue's lock for ever.
_SERVER_OPTIONS = (
    "-c timezone=UTC -c lock_timeout=15s -c statement_timeout=30s -c idle_in_transaction_session_timeout=60s"
)


class Database:
    """One database, for all threads of a process and for its forks.

    Airflow forks its tasks. A connection used on both sides of a fork breaks both, so each process has an engine of its own;
    a child lets go of the parent's without closing it.

    :param url: `postgresql+psycopg2://…`, also with `?host=DIR` for a Unix socket.
    """

    def __init__(self, url: str | URL) -> None:
        self.url = normal_url(url)
        self._engines: dict[int, Engine] = {}

    @property
    def engine(self) -> Engine:
        """This process's engine; no connection is opened before it is needed."""
        pid = os.getpid()
        engine = self._engines.get(pid)
        if engine is None:
            # No lock: one held by another thread while it forks would never be free in the child.
            engine = self._engines.setdefault(pid, self._new_engine())
            for other in [key for key in self._engines if key != pid]:
                self._engines.pop(other).dispose(close=False)
        return engine

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """A short transaction: committed at its end, rolled back on any error."""
        with described(self.url), Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    def close(self) -> None:
        """Close this process's connections; the next use opens new ones."""
        engine = self._engines.pop(os.getpid(), None)
        if engine is not None:
            engine.dispose()

    def _new_engine(self) -> Engine:
        options = f"{_SERVER_OPTIONS} {self.url.query.get('options', '')}".strip()
        return create_engine(
            self.url,
            # The guards read what others have committed after a lock was granted; a snapshot of before would blind them.
            isolation_level="READ COMMITTED",
            json_serializer=dump_json,
            pool_pre_ping=True,
            pool_size=2,
            max_overflow=6,
            pool_timeout=_POOL_WAIT_S,
            pool_recycle=1800,
            connect_args={
                "connect_timeout": self.url.query.get("connect_timeout", _CONNECT_TIMEOUT_S),
                "application_name": "ffdl-ledger",
                "options": options,
            },
        )


def normal_url(url: str | URL) -> URL:
    """The URL with its driver named and its password, if any, where it is known to be one (never shown).

    :raises PermanentError: when it is no PostgreSQL URL.
    """
    try:
        made = make_url(url)
    except ArgumentError:
        raise PermanentError(
            "The ledger's URL can't be read; it looks like postgresql+psycopg2://USER:PASSWORD@HOST:PORT/DATABASE."
        ) from None
    if made.get_backend_name() not in ("postgresql", "postgres"):
        raise PermanentError(f"The ledger needs PostgreSQL, but its URL begins with {made.drivername}://.")
    password = made.query.get("password")
    if isinstance(password, str):
        made = made.difference_update_query(["password"]).set(password=password)
    return made.set(drivername="postgresql+psycopg2")

"""The ledger's own errors, and the database's errors in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc
from sqlalchemy.engine import URL

from ffdl_ops.core.errors import PermanentError, TemporaryError

__all__ = ["LeaseLost", "LedgerUnavailable", "NotInLedger", "NotMigrated", "Refused", "described"]

_RETRY_AT_ONCE = {
    "40001": "two transactions met",
    "40P01": "two transactions met",
    "55P03": "another process held the lock for too long",
    "57014": "it took too long",
}


class LedgerUnavailable(TemporaryError):
    """The database can't be reached, or did not answer in time."""


class NotMigrated(PermanentError):
    """The database has no tables, or older ones than this version needs."""


class NotInLedger(PermanentError):
    """There is no such job, attempt or checkpoint."""


class Refused(PermanentError):
    """The ledger does not take what it was asked to write, since it contradicts what it holds."""


class LeaseLost(TemporaryError):
    """Somebody acts under a lease that the job does not hold (any more); it has to ask for admission again."""


@contextmanager
def described(url: URL) -> Iterator[None]:
    """Turn the driver's errors into the project's; no message ever holds the password.

    :raises LedgerUnavailable: the server is down, restarts, or is too slow.
    :raises NotMigrated: a table or column is missing.
    :raises Refused: a value is of no kind, or beyond the range, that the tables can hold.
    """
    place = url.render_as_string(hide_password=True)
    try:
        yield
    except exc.TimeoutError:
        raise LedgerUnavailable(
            f"The ledger at {place} has no free connection: too many things use it at once in this process."
        ) from None
    except exc.DataError as error:
        words = _without_password(str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else "", url)
        raise Refused(f"The ledger can't keep a value that it was given: {words}.") from None
    except exc.DBAPIError as error:
        code = getattr(error.orig, "pgcode", None)
        words = _without_password(str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else "", url)
        if code in _RETRY_AT_ONCE:
            raise LedgerUnavailable(
                f"The ledger did not answer: {_RETRY_AT_ONCE[code]} ({words}).", delay_s=1.0
            ) from None
        if code in ("42P01", "42703"):
            raise NotMigrated(
                f"The ledger at {place} lacks tables of this version ({words}); run its migrations (`ffdl up` does)."
            ) from None
        if error.connection_invalidated or isinstance(error, (exc.OperationalError, exc.InterfaceError)):
            raise LedgerUnavailable(
                f"The ledger at {place} can't be reached: {words.rstrip('.')}. `ffdl status` tells what is up; `ffdl up` "
                "starts the embedded platform. Elsewhere, look at PostgreSQL and FFDL_LEDGER_URL."
            ) from None
        raise


def _without_password(text: str, url: URL) -> str:
    password = str(url.password or "")
    return text.replace(password, "***") if password else text

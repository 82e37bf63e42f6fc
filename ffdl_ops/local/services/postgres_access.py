"""Who may enter the embedded PostgreSQL: each database has one role, of its own name, and a role enters no other database.

Both PostgreSQL's list of entrances (`pg_hba.conf`) and the databases' privileges say so. Passwords reach the server as
SCRAM verifiers alone, from which nobody gets the password back: no statement, and so no log of statements, holds one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

__all__ = ["DATABASES", "SUPERUSER", "admit", "adopt", "entrances", "fits", "verifier"]

DATABASES = ("airflow", "mlflow", "mlflow_auth", "ledger")
"""The databases, each with a role of the same name that owns it."""

SUPERUSER = "postgres"

_ITERATIONS = 4096
_METHOD = "scram-sha-256"
# What an earlier version made, it made as the superuser. `REASSIGN OWNED` refuses that role, as the system needs it too.
# A sequence that belongs to a column goes with its table; types that belong to a table go with it, too.
_ADOPT = """
DO $do$
DECLARE
    one record;
    foreign_to_us CONSTANT text := '^pg_|^information_schema$';
BEGIN
    FOR one IN
        SELECT format('ALTER SCHEMA %I OWNER TO', nspname) AS change
        FROM pg_namespace
        WHERE nspname !~ foreign_to_us AND nspname <> 'public' AND nspowner = 'postgres'::regrole
        UNION ALL
        SELECT format('ALTER %s %s OWNER TO', CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
            WHEN 'S' THEN 'SEQUENCE' WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'c' THEN 'TYPE' ELSE 'TABLE' END,
            c.oid::regclass)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname !~ foreign_to_us AND c.relowner = 'postgres'::regrole AND c.relkind IN ('r','p','v','m','S','f','c')
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                AND d.deptype IN ('a', 'i', 'e') AND d.refclassid = 'pg_class'::regclass)
        UNION ALL
        SELECT format('ALTER TYPE %s OWNER TO', t.oid::regtype)
        FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
        WHERE n.nspname !~ foreign_to_us AND t.typowner = 'postgres'::regrole AND t.typtype IN ('e', 'd')
        UNION ALL
        SELECT format('ALTER ROUTINE %s OWNER TO', p.oid::regprocedure)
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname !~ foreign_to_us AND p.proowner = 'postgres'::regrole
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
                AND d.deptype = 'e')
    LOOP
        EXECUTE one.change || ' ' || quote_ident(current_database());
    END LOOP;
END
$do$
"""


def entrances() -> str:
    """The content of `pg_hba.conf`: sockets of this machine alone, nobody without a password."""
    rows = [("all", SUPERUSER), *((name, name) for name in DATABASES)]
    lines = [f"local  {database:<12} {role:<12} {_METHOD}" for database, role in rows]
    return "\n".join(["# Written by `ffdl up`.", "# TYPE DATABASE     USER         METHOD", *lines, ""])


def verifier(password: str, salt: bytes | None = None, iterations: int = _ITERATIONS) -> str:
    """What PostgreSQL keeps of a password (RFC 5802, as `pg_authid.rolpassword` writes it).

    :param salt: random unless given.
    """
    salt = os.urandom(16) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt64, stored64, server64 = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${iterations}:{salt64}${stored64}:{server64}"


def fits(password: str, kept: str | None) -> bool:
    """Whether a kept verifier is this password's."""
    try:
        _, head, _ = (kept or "").split("$")
        iterations, _, salt64 = head.partition(":")
        return hmac.compare_digest(verifier(password, base64.b64decode(salt64), int(iterations)), kept or "")
    except ValueError:
        return False


def admit(connection: Connection, passwords: Mapping[str, str]) -> list[str]:
    """Bring roles and databases to what they should be; what is as it should be is left alone.

    :param connection: the superuser's, outside a transaction.
    :param passwords: by role.
    :returns: databases that were the superuser's so far: what is in them is for :func:`adopt`.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolname, rolpassword FROM pg_authid")
        kept = dict(cursor.fetchall())
        cursor.execute("SELECT d.datname, r.rolname FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba")
        owners = dict(cursor.fetchall())
        for name in DATABASES:
            if not fits(passwords[name], kept.get(name)):
                verb = "ALTER" if name in kept else "CREATE"
                cursor.execute(f"{verb} ROLE {name} LOGIN PASSWORD %s", (verifier(passwords[name]),))
            if name not in owners:
                cursor.execute(f"CREATE DATABASE {name} OWNER {name}")
        cursor.execute("SELECT datname FROM pg_database WHERE has_database_privilege('public', oid, 'CONNECT')")
        for (name,) in cursor.fetchall():
            cursor.execute(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC")
    return [name for name in DATABASES if owners.get(name, name) != name]


def adopt(connection: Connection, database: str) -> None:
    """Give a database, with all that is in it, to its own role.

    :param connection: the superuser's, to that database; all of it happens or nothing.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ADOPT)
        cursor.execute(f"ALTER DATABASE {database} OWNER TO {database}")  # last: it is what tells that all is done

"""The embedded platform's passwords and keys, made once and readable by their owner alone."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from ffdl_ops.core.errors import UserError
from ffdl_ops.core.tenancy.tenants import Tenants
from ffdl_ops.local.services.postgres_access import DATABASES, SUPERUSER

__all__ = ["close_home", "load_secrets", "write_private"]

_PRIVATE = ("airflow", "logs", "run", "s3")


def load_secrets(home: Path, tenants: Tenants) -> dict[str, Any]:
    """The secrets, with whatever is missing (a new tenant's) made now.

    :returns: `jwt`, `fernet`, `api_secret`, `minicluster_token`, `mlflow_key`, `mlflow_writer` (that user's password),
        `users` (name → password), `s3` (tenant → key pair), `postgres` (role → password).
    """
    path = home / "secrets.json"
    known = _read(path) if path.exists() else {}
    for name in ("jwt", "api_secret", "minicluster_token", "mlflow_key", "mlflow_writer"):
        known.setdefault(name, secrets.token_hex(32))
    if "fernet" not in known:
        from cryptography.fernet import Fernet

        known["fernet"] = Fernet.generate_key().decode()
    users = known.setdefault("users", {})
    users.setdefault("admin", secrets.token_urlsafe(12))
    keys = known.setdefault("s3", {})
    keys.setdefault("", {"access_key": secrets.token_hex(10), "secret_key": secrets.token_hex(20)})
    for tenant in tenants:
        users.setdefault(f"{tenant.name}-user", secrets.token_urlsafe(12))
        keys.setdefault(tenant.name, {"access_key": secrets.token_hex(10), "secret_key": secrets.token_hex(20)})
    roles = known.setdefault("postgres", {})
    for role in (SUPERUSER, *DATABASES):
        roles.setdefault(role, secrets.token_hex(24))
    write_private(path, json.dumps(known, indent=1))
    return known


def _read(path: Path) -> dict[str, Any]:
    """What was made before. It is never replaced by something new: databases and buckets are closed by what it holds."""
    try:
        known = json.loads(path.read_text())
    except (ValueError, OSError):
        known = None
    if not isinstance(known, dict):
        raise UserError(f"{path} can't be read as JSON. Bring it back from a copy: the platform's data is closed by its keys.")
    return known


def close_home(home: Path) -> None:
    """Close the platform's own directories to the users that tenants' pods run as: its logs hold what every tenant printed.

    They may pass through the home itself, to minicluster's directory, whose parts are closed by their owners.
    """
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o711)
    for name in _PRIVATE:
        (home / name).mkdir(exist_ok=True)
        (home / name).chmod(0o700)


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone can read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)

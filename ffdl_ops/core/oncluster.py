"""What a real cluster must be told of: the account that the platform works under, and where tenants' pods may connect to."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from ffdl_ops.core.jobs.fields import Section, refuse, text, whole

__all__ = ["Account", "OnCluster", "Outside"]

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def check_name(value: Any) -> str:
    """A name of a Kubernetes object that is a DNS label."""
    name = text(63)(value)
    if not _NAME.fullmatch(name):
        raise refuse("is no name of a cluster's object", "small letters, digits and '-', 63 at most")
    return name


def _check_cidr(value: Any) -> str:
    block = text(64)(value)
    try:
        return str(ipaddress.ip_network(block, strict=True))
    except ValueError:
        raise refuse("is no block of addresses", "like 192.0.2.0/24, or 192.0.2.7/32 for one address") from None


Cidr = Annotated[str, BeforeValidator(_check_cidr)]
ObjectName = Annotated[str, BeforeValidator(check_name)]


class Account(Section):
    """The service account that the platform works under; an administrator makes it."""

    namespace: ObjectName = "ffdl"
    name: ObjectName = "ffdl-platform"


class Outside(Section):
    """Addresses outside of its namespace that a tenant's pods may connect to; no ports are all ports."""

    cidr: Cidr
    ports: list[Annotated[int, BeforeValidator(whole(1, 65_535))]] = []


class OnCluster(Section):
    """What a real cluster must be told of.

    `admission` says who lets gangs start: this platform's own scheduler, or Kueue by the LocalQueue of that name in each
    tenant's namespace. `scheduler_name` is what learners' pods name as their scheduler. `s3_addresses` are the object store's,
    for an endpoint that is named: network policies know addresses alone.
    """

    admission: Literal["ffdl", "kueue"] = "ffdl"
    local_queue: ObjectName = "ffdl"
    scheduler_name: ObjectName | None = None
    account: Account = Account()
    s3_addresses: list[Cidr] = []
    egress: list[Outside] = []

"""Bring the cluster to what the configuration says of tenants, or show what would be changed.

Applied as often as wanted: what is as it should be is not written, what somebody else has put on an object stays, and nothing
is ever deleted; what the configuration does not name any more is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ffdl_ops.adapters.cluster.changes import Change, LeftAlone, as_it_should_be, change_of, differs
from ffdl_ops.adapters.cluster.client import Cluster, ClusterUnreachable
from ffdl_ops.adapters.cluster.manifests import (
    COMPONENT,
    MANAGED,
    MANAGER,
    TENANT,
    platform_manifests,
    tenant_manifests,
)
from ffdl_ops.adapters.cluster.network import open_to_all
from ffdl_ops.adapters.cluster.objects import Objects, kinds_in_namespaces
from ffdl_ops.core.errors import UserError
from ffdl_ops.core.jobs.ids import namespace as namespace_of

if TYPE_CHECKING:
    from ffdl_ops.adapters.settings import Settings

__all__ = ["Applied", "apply_tenants"]

Manifest = dict[str, Any]

_TRIES = 5


@dataclass(frozen=True)
class Applied:
    """What was done, or would be.

    :param changes: every object that the configuration asks for, in order.
    :param left_alone: objects of ours that it does not ask for any more.
    :param notes: what an administrator should know of the configuration.
    :param namespaces: the tenants' namespaces, in the configuration's order.
    """

    changes: tuple[Change, ...]
    left_alone: tuple[LeftAlone, ...]
    notes: tuple[str, ...]
    namespaces: tuple[str, ...]

    @property
    def changed(self) -> tuple[Change, ...]:
        """The objects that are not as they should be (or were not)."""
        return tuple(change for change in self.changes if change.action != "none")


def apply_tenants(settings: Settings, *, dry_run: bool = False) -> Applied:
    """Bring every tenant's namespace to what the configuration says.

    :param dry_run: only find out what would change; the server checks it all the same.
    :raises UserError: when a namespace belongs to somebody else, or credentials are missing; nothing is changed then.
    """
    # All manifests first: a tenant without credentials must not leave the others half done.
    wanted = {
        tenant.name: tenant_manifests(tenant, settings.tenants, settings.platform, settings.store_config(tenant.name))
        for tenant in settings.tenants
    }
    objects = Objects(Cluster(settings.kubeconfig), dry_run)
    _check_account(settings, wanted)
    there = {name: objects.read("Namespace", None, namespace_of(name)) for name in wanted}
    for tenant, found in there.items():
        _check_owner(tenant, found)
    changes = [_bring(objects, None, body, _read(objects, body)) for body in platform_manifests(settings.platform)]
    left = list(_removed_tenants(objects, wanted))
    for tenant, bodies in wanted.items():
        space = there[tenant]
        live = _live(objects, space, bodies) if space else {}
        changes += [_bring(objects, tenant, body, live.get(_key(body)), new=not space) for body in bodies]
        left += _superfluous(tenant, bodies, live.values())
    return Applied(tuple(changes), tuple(left), tuple(_notes(settings)), tuple(namespace_of(name) for name in wanted))


def _bring(
    objects: Objects, tenant: str | None, wanted: Manifest, live: Manifest | None, *, new: bool = False
) -> Change:
    """Make one object what it should be.

    :param new: whether its namespace is new: where nothing is written, the server can't be asked about what is in it.
    """
    if new and objects.dry_run and wanted["kind"] != "Namespace":
        return change_of(tenant, None, wanted, wanted)
    for _ in range(_TRIES):
        if live is not None and not differs(live, wanted):
            return change_of(tenant, live, wanted, live)
        outcome = objects.create(wanted) if live is None else objects.replace(as_it_should_be(live, wanted))
        if outcome is not None:
            return change_of(tenant, live, wanted, outcome)
        live = _read(objects, wanted)  # somebody else was faster
    where = "/".join(part for part in (wanted["metadata"].get("namespace"), wanted["metadata"]["name"]) if part)
    raise ClusterUnreachable(f"{wanted['kind']} {where} is changed by somebody else again and again; try again later.")


def _read(objects: Objects, body: Manifest) -> Manifest | None:
    return objects.read(body["kind"], body["metadata"].get("namespace"), body["metadata"]["name"])


def _live(objects: Objects, space: Manifest, bodies: Iterable[Manifest]) -> dict[tuple[str, str], Manifest]:
    """A tenant's namespace and what it holds of the kinds that we keep there, by kind and name."""
    namespace = space["metadata"]["name"]
    found = {
        (kind, one["metadata"]["name"]): {"kind": kind, **one}
        for kind in kinds_in_namespaces()
        for one in objects.of_kind(kind, namespace)
    }
    secrets = {_key(body): _read(objects, body) for body in bodies if body["kind"] == "Secret"}
    known = {key: body for key, body in secrets.items() if body is not None}
    return {("Namespace", namespace): space, **found, **known}


def _key(body: Manifest) -> tuple[str, str]:
    return body["kind"], body["metadata"]["name"]


def _check_account(settings: Settings, tenants: Iterable[str]) -> None:
    """The platform must not live in a tenant's namespace, where nothing may be reached."""
    account = settings.platform.cluster.account
    for tenant in tenants:
        if namespace_of(tenant) == account.namespace:
            raise UserError(
                f"cluster.account.namespace is {account.namespace}, which is the namespace of tenant {tenant}; "
                "give the platform one of its own."
            )


def _check_owner(tenant: str, namespace: Manifest | None) -> None:
    """A namespace that happens to have the name is not taken over: it would be cut off from the network."""
    if namespace is None:
        return
    owner = (namespace["metadata"].get("labels") or {}).get(TENANT)
    if owner != tenant:
        name = namespace["metadata"]["name"]
        raise UserError(
            f"Namespace {name} is there already and is not tenant {tenant}'s (label {TENANT} is "
            f"{owner or 'missing'}); to hand it over: kubectl label namespace {name} --overwrite {TENANT}={tenant}"
        )


def _removed_tenants(objects: Objects, tenants: Iterable[str]) -> Iterator[LeftAlone]:
    known = {namespace_of(tenant) for tenant in tenants}
    for one in objects.of_kind("Namespace", selector=f"{MANAGED}={MANAGER},{TENANT}"):
        name = one["metadata"]["name"]
        if name not in known:
            why = f"tenant {one['metadata']['labels'][TENANT]} is not in the configuration; its data is kept"
            yield LeftAlone("Namespace", None, name, why, f"kubectl delete namespace {name}")


def _superfluous(tenant: str, wanted: Iterable[Manifest], live: Iterable[Manifest]) -> Iterator[LeftAlone]:
    """What an earlier configuration, or an earlier version, has put into a tenant's namespace."""
    known = {_key(body) for body in wanted}
    for one in live:
        meta = one["metadata"]
        labels = meta.get("labels") or {}
        if labels.get(MANAGED) != MANAGER or labels.get("app.kubernetes.io/component", COMPONENT) != COMPONENT:
            continue
        if _key(one) not in known:
            kind, namespace, name = one["kind"], meta["namespace"], meta["name"]
            command = f"kubectl -n {namespace} delete {kind.lower()} {name}"
            yield LeftAlone(kind, namespace, name, f"tenant {tenant} needs it no more", command)


def _notes(settings: Settings) -> Iterator[str]:
    platform = settings.platform
    if platform.profile != "kubernetes":
        return
    for name in ("job", "cache"):
        if getattr(platform.volumes, name).kind == "hostPath":
            yield (
                f"volumes.{name} is a hostPath, which Pod Security 'restricted' forbids: every pod will be refused; "
                "use a persistentVolumeClaim."
            )
    endpoints = {settings.store_config(tenant.name).endpoint_url for tenant in settings.tenants}
    for endpoint in sorted(endpoints, key=str):
        port = open_to_all(endpoint, platform.cluster)
        if port is not None:
            yield (
                f"The object store {endpoint or 'of Amazon'} is known by name, and network policies know addresses alone: "
                f"tenants' pods may connect to port {port} of every address; cluster.s3_addresses narrows it."
            )

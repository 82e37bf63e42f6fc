"""A tenant's network policies: nothing in, nothing out, but for what learners and helpers need.

Policies add up: one denies everything, each other one opens one thing. A policy knows labels and addresses, not names, so an
object store whose endpoint is a name is opened by the addresses that the configuration gives; without these, by its port.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from ffdl_ops.core.oncluster import OnCluster

__all__ = ["network_policies", "open_to_all"]

Manifest = dict[str, Any]

_DNS_PORTS = [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]
_NODE_LOCAL_DNS = "169.254.20.10/32"
_LEARNERS = {"matchLabels": {"app.kubernetes.io/component": "learner"}}
# Everything but link-local addresses and the metadata services of clouds, which hand out the node's own credentials.
_ANYWHERE = (
    {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]},
    {"cidr": "::/0", "except": ["fd00:ec2::254/128", "fe80::/10"]},
)


def network_policies(endpoint: str | None, cluster: OnCluster, meta: Manifest) -> list[Manifest]:
    """The policies of one namespace.

    :param endpoint: the object store's URL; ``None`` for Amazon's own.
    :param meta: namespace and labels of all of them.
    """
    learners = [{"podSelector": _LEARNERS}]
    name_servers = [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}},
        {"ipBlock": {"cidr": _NODE_LOCAL_DNS}},
    ]
    policies = [
        _policy(meta, "ffdl-default-deny", {}, ["Ingress", "Egress"]),
        _policy(
            meta, "ffdl-learners", _LEARNERS, ["Ingress", "Egress"],
            ingress=[{"from": learners}], egress=[{"to": learners}],
        ),
        _policy(meta, "ffdl-dns", {}, ["Egress"], egress=[{"ports": _DNS_PORTS, "to": name_servers}]),
        _policy(meta, "ffdl-s3", {}, ["Egress"], egress=[_object_store(endpoint, cluster.s3_addresses)]),
    ]  # fmt: skip
    if cluster.egress:
        rules = [_to(({"cidr": one.cidr},), one.ports) for one in cluster.egress]
        policies.append(_policy(meta, "ffdl-egress", {}, ["Egress"], egress=rules))
    return policies


def open_to_all(endpoint: str | None, cluster: OnCluster) -> int | None:
    """The port that is open to every address, because nobody has said which addresses the object store has."""
    host, port = _host_and_port(endpoint)
    known = cluster.s3_addresses or _address(host) or _namespace_of(host)
    return None if known else port


def _policy(meta: Manifest, name: str, selector: Manifest, types: list[str], **rules: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {**meta, "name": name},
        "spec": {"podSelector": selector, "policyTypes": types, **rules},
    }


def _to(blocks: Iterable[Manifest], ports: Iterable[int]) -> Manifest:
    rule: Manifest = {"to": [{"ipBlock": dict(block)} for block in blocks]}
    listed = [{"port": port, "protocol": "TCP"} for port in ports]
    return {"ports": listed, **rule} if listed else rule


def _object_store(endpoint: str | None, addresses: list[str]) -> Manifest:
    host, port = _host_and_port(endpoint)
    own = [*addresses] or _address(host)
    if own:
        return _to(({"cidr": cidr} for cidr in own), [port])
    namespace = _namespace_of(host)
    if namespace:
        # Without a port: a policy sees the pod's own, which need not be the service's.
        return {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}]}
    return _to(_ANYWHERE, [port])


def _host_and_port(endpoint: str | None) -> tuple[str, int]:
    parts = urlsplit(endpoint or "https://")
    return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)


def _address(host: str) -> list[str]:
    """The block of a host that is an address."""
    try:
        return [str(ipaddress.ip_network(host))]
    except ValueError:
        return []


def _namespace_of(host: str) -> str | None:
    """The namespace of a service of the cluster, ``name.namespace.svc[.…]``."""
    parts = host.split(".")
    return parts[1] if len(parts) > 2 and parts[2] == "svc" else None

"""Which connections a tenant's network policies let through, by an evaluation of the policies themselves."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

import pytest

from ffdl_ops.adapters.cluster.network import network_policies, open_to_all
from ffdl_ops.core.oncluster import OnCluster

LEARNER = {"app.kubernetes.io/component": "learner"}
HELPER = {"app.kubernetes.io/component": "helper"}
META = {"namespace": "ffdl-vision", "labels": {}}


def cluster(**fields: Any) -> OnCluster:
    return OnCluster.model_validate(fields)


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    return (selector.get("matchLabels") or {}).items() <= labels.items()


def matches(peer: Mapping[str, Any], address: str | None, labels: Mapping[str, str], namespace: str) -> bool:
    """Whether a peer of a rule is an address, or a pod of a namespace."""
    if "ipBlock" in peer:
        host = ipaddress.ip_address(address) if address else None
        block = peer["ipBlock"]
        inside = host is not None and host in ipaddress.ip_network(block["cidr"])
        return inside and not any(host in ipaddress.ip_network(one) for one in block.get("except", ()))
    if address:
        return False
    own = "namespaceSelector" not in peer and namespace == META["namespace"]
    named = "namespaceSelector" in peer and selects(
        peer["namespaceSelector"], {"kubernetes.io/metadata.name": namespace}
    )
    return (own or named) and selects(peer.get("podSelector", {}), labels)


def allowed(
    way: str, policies: list[dict[str, Any]], pod: Mapping[str, str], port: int, *, address: str | None = None,
    labels: Mapping[str, str] = LEARNER, namespace: str = "ffdl-vision",
) -> bool:  # fmt: skip
    """Whether a pod of the tenant may connect to (or be reached from) a peer: policies add up."""
    field, end = ("egress", "to") if way == "Egress" else ("ingress", "from")
    specs = [
        one["spec"]
        for one in policies
        if way in one["spec"]["policyTypes"] and selects(one["spec"]["podSelector"], pod)
    ]
    assert specs, "a pod that no policy selects may do everything"
    return any(
        (not rule.get("ports") or port in [one["port"] for one in rule["ports"]])
        and any(matches(peer, address, labels, namespace) for peer in rule[end])
        for spec in specs
        for rule in spec.get(field, [])
    )


@pytest.fixture
def policies() -> list[dict[str, Any]]:
    return network_policies("http://192.0.2.7:8333", cluster(), META)


@pytest.mark.parametrize("way", ["Egress", "Ingress"])
def test_learners_reach_each_other_and_nobody_else_reaches_them(policies: list[dict[str, Any]], way: str) -> None:
    assert allowed(way, policies, LEARNER, 20_000, labels=LEARNER)
    assert not allowed(way, policies, LEARNER, 20_000, labels=HELPER)
    assert not allowed(way, policies, LEARNER, 20_000, labels=LEARNER, namespace="ffdl-speech")
    assert not allowed(way, policies, HELPER, 20_000, labels=LEARNER)
    assert not allowed(way, policies, LEARNER, 443, address="198.51.100.9")


@pytest.mark.parametrize("pod", [LEARNER, HELPER])
def test_every_pod_may_ask_the_name_server_and_the_object_store(
    policies: list[dict[str, Any]], pod: dict[str, str]
) -> None:
    assert allowed("Egress", policies, pod, 53, labels={"k8s-app": "kube-dns"}, namespace="kube-system")
    assert allowed("Egress", policies, pod, 53, address="169.254.20.10")
    assert allowed("Egress", policies, pod, 8333, address="192.0.2.7")
    assert not allowed("Egress", policies, pod, 22, address="192.0.2.7")
    assert not allowed("Egress", policies, pod, 443, labels={}, namespace="kube-system")
    assert not allowed("Egress", policies, pod, 53, address="198.51.100.9")


def test_a_store_known_by_name_is_opened_by_its_port_but_for_the_nodes_own_addresses() -> None:
    policies = network_policies("https://s3.example.org", cluster(), META)
    assert allowed("Egress", policies, HELPER, 443, address="198.51.100.9")
    assert allowed("Egress", policies, HELPER, 443, address="2001:db8::1")
    assert not allowed("Egress", policies, HELPER, 443, address="169.254.169.254")
    assert not allowed("Egress", policies, HELPER, 443, address="fd00:ec2::254")
    assert not allowed("Egress", policies, HELPER, 80, address="198.51.100.9")
    assert open_to_all("https://s3.example.org", cluster()) == 443
    assert open_to_all(None, cluster()) == 443


def test_the_configuration_narrows_a_store_known_by_name() -> None:
    known = cluster(s3_addresses=["192.0.2.0/28"])
    policies = network_policies("https://s3.example.org:9000", known, META)
    assert allowed("Egress", policies, HELPER, 9000, address="192.0.2.3")
    assert not allowed("Egress", policies, HELPER, 9000, address="198.51.100.9")
    assert open_to_all("https://s3.example.org:9000", known) is None


def test_a_store_that_is_a_service_of_the_cluster_is_opened_by_its_namespace() -> None:
    endpoint = "http://minio.storage.svc.cluster.local:9000"
    policies = network_policies(endpoint, cluster(), META)
    assert allowed("Egress", policies, HELPER, 9001, labels={"app": "minio"}, namespace="storage")
    assert not allowed("Egress", policies, HELPER, 9001, labels={"app": "minio"}, namespace="other")
    assert open_to_all(endpoint, cluster()) is None


def test_further_addresses_are_opened_when_the_configuration_names_them() -> None:
    more = cluster(egress=[{"cidr": "203.0.113.0/24", "ports": [443]}, {"cidr": "203.0.114.1/32"}])
    policies = network_policies("http://192.0.2.7:8333", more, META)
    assert allowed("Egress", policies, LEARNER, 443, address="203.0.113.5")
    assert not allowed("Egress", policies, LEARNER, 80, address="203.0.113.5")
    assert allowed("Egress", policies, LEARNER, 80, address="203.0.114.1")
    assert "ffdl-egress" not in [one["metadata"]["name"] for one in network_policies(None, cluster(), META)]

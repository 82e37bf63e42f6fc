"""Pods that no lease knows of take room on nodes."""

from __future__ import annotations

from kubernetes import client as k8s

from ffdl_ops.adapters.cluster.others import beside, taken_by_node
from tests.support.gangs import GIB, node


def container(gpus: int = 0, cpu: str = "0", memory: str = "0", **more: str) -> k8s.V1Container:
    """A container that asks for so much."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else None
    asked = {"cpu": cpu, "memory": memory}
    return k8s.V1Container(name="c", resources=k8s.V1ResourceRequirements(requests=asked, limits=limits), **more)


def pod(where: str | None, *containers: k8s.V1Container, phase: str = "Running", inits: tuple = ()) -> k8s.V1Pod:
    """A pod on a node."""
    spec = k8s.V1PodSpec(node_name=where, containers=list(containers), init_containers=list(inits))
    return k8s.V1Pod(spec=spec, status=k8s.V1PodStatus(phase=phase))


def test_what_pods_ask_for_is_added_up_by_node_while_they_live():
    taken = taken_by_node(
        [
            pod("n1", container(2, "500m", "1Gi"), container(0, "250m", "0")),
            pod("n1", container(0, "1", "1Gi")),
            pod("n1", container(4), phase="Succeeded"),
            pod(None, container(4)),
        ]
    )
    assert taken == {"n1": (2, 1750, 2 * GIB)}


def test_an_init_container_counts_if_it_is_larger_and_a_side_car_is_added():
    large = container(0, "4", "0")
    side_car = container(0, "1", "0", restart_policy="Always")
    assert taken_by_node([pod("n1", container(0, "2", "0"), inits=(large, side_car))]) == {"n1": (0, 4000, 0)}
    assert taken_by_node([pod("n1", container(0, "2", "0"), inits=(side_car,))]) == {"n1": (0, 3000, 0)}


def test_gangs_get_what_is_left_and_never_less_than_nothing():
    (left, other) = beside([node("n1", gpus=4, cpus=8, gib=8), node("n2")], {"n1": (1, 9000, GIB)})
    assert (left.gpus, left.cpu_millis, left.memory_bytes) == (3, 0, 7 * GIB)
    assert other == node("n2")

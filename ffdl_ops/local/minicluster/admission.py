"""What a node's kubelet refuses of what was bound to it: the pod fails at once, without container statuses."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from decimal import Decimal

from ffdl_ops.local.minicluster.devices import Devices, DevicesTaken
from ffdl_ops.local.minicluster.nodes import GPU_RESOURCE
from ffdl_ops.local.minicluster.podresources import pod_amounts, used_on_node
from ffdl_ops.local.minicluster.quantity import quantity
from ffdl_ops.local.minicluster.store import Object, Store

__all__ = ["Rejected", "admit"]


class Rejected(Exception):
    """A pod that its node refuses.

    :param reason: the pod's reason ("OutOfmemory", …).
    :param message: the pod's message.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def admit(pod: Object, store: Store, devices: Devices, refusals: MutableMapping[str, tuple[str, str]]) -> None:
    """Take a pod onto its node.

    :param refusals: by node, the reason and message by which the next pod there is to be refused (an injected fault).
    :raises Rejected: when the node does not take it.
    """
    name = pod["spec"]["nodeName"]
    if name in refusals:
        raise Rejected(*refusals.pop(name))
    node = store.peek("nodes", "", name)
    allocatable: Mapping[str, str] = node["status"]["allocatable"] if node else {}
    used = used_on_node(store.list("pods"), name, but=pod["metadata"]["uid"])
    for resource, amount in {**pod_amounts(pod), "pods": Decimal(1)}.items():
        capacity, taken = quantity(allocatable.get(resource, "0")), used.get(resource, Decimal(0))
        if resource != GPU_RESOURCE and amount and taken + amount > capacity:
            scale = 1000 if resource == "cpu" else 1
            raise Rejected(
                f"OutOf{resource}",
                f"Pod was rejected: Node didn't have enough resource: {resource}, requested: {int(amount * scale)}, used: "
                f"{int(taken * scale)}, capacity: {int(capacity * scale)}",
            )
    try:
        devices.assign(pod)
    except DevicesTaken as taken_error:
        raise Rejected("UnexpectedAdmissionError", f"Pod was rejected: {taken_error}") from None

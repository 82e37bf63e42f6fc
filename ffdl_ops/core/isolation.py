"""How far tenants must be kept apart, and what one machine can't do about it. Pure."""

from __future__ import annotations

__all__ = ["OPEN_ON_ONE_MACHINE", "refusal_on_one_machine"]

OPEN_ON_ONE_MACHINE = (
    "network between tenants' learners, and between learners and the platform's loopback ports (minicluster stores network "
    "policies and enforces none)",
    "CPU time (CPU limits are accepted without effect)",
    "command lines and names of all processes, which every user of the machine can list",
)
"""What stays open on the embedded platform even where each tenant has a uid of its own."""


def refusal_on_one_machine(by_uid: str | None) -> str:
    """Why the embedded platform is not what `isolation: required` asks for.

    :param by_uid: why tenants' pods would have no uid of their own; ``None`` if they have.
    """
    missing = [f"a uid for each tenant ({by_uid})"] if by_uid else []
    missing += OPEN_ON_ONE_MACHINE
    return (
        "isolation is 'required' in platform.yaml, and on one machine these are not separated: "
        f"{'; '.join(missing)}. Use the profile kubernetes with a cluster that enforces network policies, or set "
        "isolation: best_effort and trust the tenants that far."
    )

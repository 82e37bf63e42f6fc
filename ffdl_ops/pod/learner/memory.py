"""What the container's memory group tells: how many of its processes the kernel has killed."""

from __future__ import annotations

__all__ = ["count_oom_kills"]

_ROOT = "/sys/fs/cgroup"


def count_oom_kills(membership: str = "/proc/self/cgroup", root: str = _ROOT) -> int:
    """Processes of this one's memory group that were killed for memory so far; 0 where it can't be read.

    The group may be shared with others (on a machine without containers), so only a rise tells something.
    """
    for path in _counters(membership, root):
        try:
            with open(path, encoding="ascii") as file:
                for line in file:
                    name, _, value = line.partition(" ")
                    if name == "oom_kill":
                        return int(value)
        except (OSError, ValueError):
            continue
    return 0


def _counters(membership: str, root: str) -> list[str]:
    """Where the count may be: in the group's own directory, or at the root as a container sees it; cgroups v2, then v1."""
    groups = {}
    try:
        with open(membership, encoding="utf-8") as file:
            for line in file:
                _, controllers, group = line.rstrip("\n").split(":", 2)
                for controller in controllers.split(","):
                    groups[controller] = group.rstrip("/")
    except (OSError, ValueError):
        pass
    return [
        f"{root}{groups.get('', '')}/memory.events",
        f"{root}/memory.events",
        f"{root}/memory{groups.get('memory', '')}/memory.oom_control",
        f"{root}/memory/memory.oom_control",
    ]

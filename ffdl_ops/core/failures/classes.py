"""The classes of failure, by what is to be done about them."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["FailureClass"]


class FailureClass(StrEnum):
    """Why an attempt ended."""

    USER_ERROR = "user_error"
    """The program, its command, its code or its data; the same again would fail the same way."""
    OOM = "oom"
    """Memory, of the machine or of the GPU, was not enough."""
    IMAGE = "image"
    """The container image can't be had."""
    STARTUP = "startup"
    """The pods did not come up: not placed, refused by the node, or too slow."""
    EVICTED = "evicted"
    """The cluster moved a learner away (a drain, pressure on the node, a deletion from outside)."""
    PREEMPTED = "preempted"
    """A job with more right to the GPUs took them."""
    NODE_LOST = "node_lost"
    """The machine under a learner went away."""
    PLATFORM = "platform"
    """A part of this platform failed (storage unreachable, local disk full, a helper's defect)."""
    UNKNOWN = "unknown"
    """The evidence does not tell."""

"""What the cluster's own words mean: reasons of pods and containers, exit codes of programs and of the staging helper."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ffdl_ops.core.failures.classes import FailureClass

__all__ = [
    "ADVICE", "CONTAINER_REASONS", "EXIT_CODES", "HELPER_CODES", "POD_REASONS", "gpu_memory_text", "host_memory_text",
    "is_consequence", "of_pod_reason",
]  # fmt: skip

POD_REASONS: Mapping[str, FailureClass] = {
    "Evicted": FailureClass.EVICTED,
    "EvictionByEvictionAPI": FailureClass.EVICTED,
    "TerminationByKubelet": FailureClass.EVICTED,
    "DeletionByTaintManager": FailureClass.NODE_LOST,
    "DeletionByPodGC": FailureClass.NODE_LOST,
    "NodeLost": FailureClass.NODE_LOST,
    "NodeShutdown": FailureClass.NODE_LOST,
    "Shutdown": FailureClass.NODE_LOST,
    "Terminated": FailureClass.NODE_LOST,
    "SpotTermination": FailureClass.NODE_LOST,
    "Preempting": FailureClass.PREEMPTED,
    "Preempted": FailureClass.PREEMPTED,
    "PreemptionByScheduler": FailureClass.PREEMPTED,
    "UnexpectedAdmissionError": FailureClass.STARTUP,
    "NodeAffinity": FailureClass.STARTUP,
    "NodeSelectorMismatching": FailureClass.STARTUP,
    "Unschedulable": FailureClass.STARTUP,
    "DeadlineExceeded": FailureClass.USER_ERROR,
}
"""A pod's own reason, whatever its containers say: a pod that failed before any container ran has nothing else."""

_REFUSED_BY_NODE = re.compile(r"OutOf\S+")

CONTAINER_REASONS: Mapping[str, FailureClass] = {
    "ErrImagePull": FailureClass.IMAGE,
    "ImagePullBackOff": FailureClass.IMAGE,
    "InvalidImageName": FailureClass.IMAGE,
    "ErrImageNeverPull": FailureClass.IMAGE,
    "ImageInspectError": FailureClass.IMAGE,
    "RegistryUnavailable": FailureClass.IMAGE,
    "CreateContainerConfigError": FailureClass.STARTUP,
    "CreateContainerError": FailureClass.STARTUP,
    "RunContainerError": FailureClass.STARTUP,
    "ContainerCannotRun": FailureClass.STARTUP,
    "StartError": FailureClass.STARTUP,
    "Unschedulable": FailureClass.STARTUP,
}
"""Why a container can't start, or ended before its program began."""

HELPER_CODES: Mapping[int, tuple[FailureClass, str]] = {
    64: (FailureClass.PLATFORM, "the staging helper was given a specification that it can't read"),
    65: (FailureClass.USER_ERROR, "the data or code is missing, has changed, or is no safe archive"),
    66: (FailureClass.USER_ERROR, "the object store refused the credentials"),
    69: (FailureClass.PLATFORM, "the object store could not be reached"),
    74: (FailureClass.PLATFORM, "the local disk is full or failed"),
}
"""Exit codes of the staging helper."""

EXIT_CODES: Mapping[int, str] = {
    1: "the program ended with an error",
    2: "the program was called wrongly, or its script has a syntax error",
    126: "the command can't be executed (no permission, or not a program)",
    127: "the command was not found",
    132: "the program ran an instruction that this processor does not have (SIGILL)",
    134: "the program aborted itself (SIGABRT)",
    135: "the program made a faulty memory access (SIGBUS); often /dev/shm is full",
    136: "the program made an arithmetic error (SIGFPE)",
    137: "the program was killed (SIGKILL) by something outside this platform",
    139: "the program crashed in native code (SIGSEGV)",
    143: "the program was stopped (SIGTERM) by something outside this platform",
}
"""What an exit code says in words; 128+n is signal n."""

ADVICE: Mapping[FailureClass, str] = {
    FailureClass.USER_ERROR: "Read the end of the learner's log, fix the program or the manifest, and submit it again.",
    FailureClass.OOM: "Raise `memory` in the manifest, or lower the batch size or the number of data-loading workers.",
    FailureClass.IMAGE: "Check the image's name and tag (framework.version or image) and that the cluster may pull it.",
    FailureClass.STARTUP: "The pods did not come up; the message says what they waited for. Ask for less, or see the nodes.",
    FailureClass.EVICTED: "The cluster moved a learner away. The gang goes on from its newest checkpoint on other GPUs.",
    FailureClass.PREEMPTED: "A job with more right to the GPUs took them. This one goes on from its newest checkpoint.",
    FailureClass.NODE_LOST: "The machine went away. The gang goes on from its newest checkpoint on other machines.",
    FailureClass.PLATFORM: "The platform's own part failed; its administrator should see docs/operations.md.",
    FailureClass.UNKNOWN: "Read the learner's log and the evidence here; raise `retry.unknown` if trying again helps.",
}
"""What to do, by class."""

_CONSEQUENCE = re.compile(
    r"connection (?:was )?(?:closed|reset) by (?:remote )?peer|connection reset|broken ?pipe|socket closed|socket timeout"
    r"|nccl(?:remote|system)?error|remote process exited|unhandled (?:system|cuda) error, nccl"
    r"|application timeout caused pair closure|pair closure|gloo/transport"
    r"|distnetworkerror|distbackenderror|rendezvous|failed to connect to|timed out (?:initializing|waiting for)"
    r"|collective operation timeout|watchdog caught collective|peer.{0,40}(?:died|gone|unavailable)"
    r"|errors_impl\.(?:unavailable|aborted|cancelled)error|unavailableerror"
    r"|abortederror: .{0,80}collective|task .{0,60}(?:heartbeat|unhealthy)"
    r"|coordination service|end of file.{0,20}recv",
    re.IGNORECASE,
)
_GPU_MEMORY = re.compile(
    r"cuda out of memory|outofmemoryerror|cublas_status_alloc_failed|cudaerrormemoryallocation|resourceexhaustederror"
    r"|oom when allocating",
    re.IGNORECASE,
)
_HOST_MEMORY = re.compile(
    r"^[ \t]*memoryerror\b|arraymemoryerror\b|cannot allocate memory|std::bad_alloc"
    r"|killed by signal: killed|defaultcpuallocator: (?:can't|not enough)",
    re.IGNORECASE | re.MULTILINE,
)
_READ = 8192


def of_pod_reason(reason: str | None) -> FailureClass | None:
    """The class of a pod's own reason, if it tells one."""
    if reason and _REFUSED_BY_NODE.fullmatch(reason):
        return FailureClass.STARTUP
    return POD_REASONS.get(reason or "")


def is_consequence(text: str) -> bool:
    """Whether a program's last words complain of a peer that went away, rather than of itself."""
    return _CONSEQUENCE.search(text[-_READ:]) is not None


def gpu_memory_text(text: str) -> bool:
    """Whether a program's last words say that the GPU's memory was not enough."""
    return _GPU_MEMORY.search(text[-_READ:]) is not None


def host_memory_text(text: str) -> bool:
    """Whether a program's last words say that the machine's memory was not enough."""
    return _HOST_MEMORY.search(text[-_READ:]) is not None

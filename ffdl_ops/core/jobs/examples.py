"""The ready-made trainings that a form or manifest may name instead of a program of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["EXAMPLES", "Example"]


@dataclass(frozen=True)
class Example:
    """One ready-made training.

    :param name: what a manifest's ``example`` says.
    :param framework: the framework that it is written for.
    :param title: one line for a person.
    :param command: what runs it, in the directory that its program was copied to.
    :param module: the module with its program, in this package.
    :param data: where its data set lies in a tenant's bucket, unless the manifest says otherwise; ``None`` if it reads none.
    """

    name: str
    framework: str
    title: str
    command: str
    module: str
    data: str | None


EXAMPLES: Mapping[str, Example] = MappingProxyType(
    {
        "digits-pytorch": Example(
            name="digits-pytorch",
            framework="pytorch",
            title="Classify handwritten digits with PyTorch (DistributedDataParallel)",
            command="python3 digits_pytorch.py",
            module="ffdl_ops.pod.workloads.digits_pytorch",
            data="datasets/digits",
        ),
        "digits-tensorflow": Example(
            name="digits-tensorflow",
            framework="tensorflow",
            title="Classify handwritten digits with TensorFlow (MultiWorkerMirroredStrategy)",
            command="python3 digits_tensorflow.py",
            module="ffdl_ops.pod.workloads.digits_tensorflow",
            data="datasets/digits",
        ),
        "probe": Example(
            name="probe",
            framework="pytorch",
            title="A tiny program that counts steps, for trying out and measuring the platform",
            command="python3 probe.py",
            module="ffdl_ops.pod.workloads.probe",
            data=None,
        ),
    }
)
"""The examples by name."""

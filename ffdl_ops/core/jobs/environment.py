"""Which environment variables a job may set for its program: not the platform's own, and none that would change how the
platform's launcher itself runs.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from ffdl_ops.core.jobs.fields import refuse
from ffdl_ops.core.jobs.yamltext import written

__all__ = ["Environment", "PLATFORM_NAMES"]

PLATFORM_NAMES = frozenset(
    {
        "CHECKPOINT_DIR", "DATA_DIR", "GPU_COUNT", "JOB_STATE_DIR", "LEARNER_ID", "LEARNER_NAME_PREFIX", "LOCAL_RANK",
        "LOCAL_WORLD_SIZE", "LOG_DIR", "MASTER_ADDR", "MASTER_PORT", "MODEL_DIR", "NUM_LEARNERS", "POD_IP", "POD_NAME",
        "RANK", "RESULT_DIR", "TF_CONFIG", "TRAINING_COMMAND", "TRAINING_ID", "WORLD_SIZE",
    }
)  # fmt: skip
"""What a learner's environment holds already."""

_PLATFORM_PREFIXES = ("FFDL_", "AWS_", "KUBERNETES_")
_GPU_NAMES = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"})
_HOOKS = frozenset({"BASH_ENV", "ENV", "IFS", "PATH", "SHELLOPTS", "BASHOPTS", "PS4"})
_HOOK_PREFIXES = ("LD_", "DYLD_", "BASH_FUNC_")
_HARMLESS_PYTHON = frozenset({"PYTHONUNBUFFERED", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER"})
_HARMLESS_LINKER = frozenset({"LD_LIBRARY_PATH"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_MAX_VARIABLES = 100
_MAX_VALUE = 4096
_MAX_TOTAL = 32 * 1024


def _check_name(value: Any) -> str:
    name = value if isinstance(value, str) else ""
    if not _NAME.fullmatch(name):
        raise refuse("is no variable name", "letters, digits and '_', at most 128, not beginning with a digit")
    if name in PLATFORM_NAMES or name.startswith(_PLATFORM_PREFIXES):
        raise refuse("is set by the platform", "choose another name")
    if name in _GPU_NAMES:
        raise refuse("is set by the cluster, which hands out the GPUs", "set 'gpus'")
    if name in _HARMLESS_PYTHON or name in _HARMLESS_LINKER:
        return name
    if name in _HOOKS or name.startswith(_HOOK_PREFIXES) or name.startswith("PYTHON"):
        raise refuse(
            "would change how the platform's launcher runs",
            f"set it in the command alone, like '{name}=… python3 train.py'",
        )
    return name


def _check_value(value: Any) -> str:
    if isinstance(value, bool):
        raise refuse("must be text, and YAML reads this as a truth value", "put it in quotes")
    if isinstance(value, (int, float)):
        return written(value)
    if not isinstance(value, str):
        raise refuse("must be text", 'put it in quotes; use "" for an empty value')
    if len(value) > _MAX_VALUE:
        raise refuse(f"must have at most {_MAX_VALUE} characters, and has {len(value)}")
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise refuse("holds a character that no environment variable can hold")
    return value


def _check_size(values: dict[str, str]) -> dict[str, str]:
    if len(values) > _MAX_VARIABLES:
        raise refuse(f"there may be {_MAX_VARIABLES} variables at most, and there are {len(values)}")
    total = sum(len(name) + len(value.encode()) for name, value in values.items())
    if total > _MAX_TOTAL:
        raise refuse(f"the variables take {total} bytes together; {_MAX_TOTAL} is the limit", "use a file in the code")
    return values


_Name = Annotated[
    str, BeforeValidator(_check_name), WithJsonSchema({"type": "string", "pattern": f"^{_NAME.pattern}$"})
]
_Value = Annotated[
    str, BeforeValidator(_check_value), WithJsonSchema({"type": ["string", "number"], "maxLength": _MAX_VALUE})
]
Environment = Annotated[dict[_Name, _Value], AfterValidator(_check_size)]
"""A job's own environment variables."""

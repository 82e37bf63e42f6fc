"""Reading the embedded cluster's configuration files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ffdl_ops.core.errors import UserError
from ffdl_ops.core.jobs.problems import Problems
from ffdl_ops.core.jobs.yamltext import MAX_CONFIGURATION_BYTES, load_yaml

__all__ = ["read_configuration"]


def read_configuration(path: Path, what: str) -> Any:
    """The value of a YAML file, read as strictly as a manifest.

    :param what: the file in words, for the error.
    :raises UserError: when it can't be read.
    """
    try:
        return load_yaml(path.read_text(encoding="utf-8"), MAX_CONFIGURATION_BYTES)
    except UnicodeDecodeError:
        raise UserError(f"{what} {path} cannot be read: it is no UTF-8 text.") from None
    except OSError as error:
        raise UserError(f"{what} {path} cannot be read: {error.strerror}.") from None
    except Problems as refused:
        raise UserError(f"{what} {path} cannot be read: {refused}") from None

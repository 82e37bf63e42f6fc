"""Whether the embedded platform may start, by `isolation` in platform.yaml."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ffdl_ops.core.errors import UserError
from ffdl_ops.core.isolation import refusal_on_one_machine

if TYPE_CHECKING:
    from ffdl_ops.adapters.settings import Settings

__all__ = ["check_isolation"]


def check_isolation(settings: Settings) -> None:
    """Refuse to start where tenants must be kept apart farther than one machine does it.

    :raises UserError: naming the setting, what is missing, and what to do.
    """
    if settings.platform.isolation == "required":
        raise UserError(refusal_on_one_machine(None if os.geteuid() == 0 else "`ffdl up` does not run as root"))

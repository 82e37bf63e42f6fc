"""`isolation: required`: no job is planned where its tenant is not kept apart from the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ffdl_ops.adapters.cluster.walls import missing_walls
from ffdl_ops.core.errors import UserError
from ffdl_ops.core.isolation import refusal_on_one_machine

if TYPE_CHECKING:
    from ffdl_ops.pipeline.services import Services

__all__ = ["check_isolation"]


def check_isolation(svc: Services, tenant: str) -> None:
    """Look whether a tenant's walls are in place, if the configuration requires them: two calls to the cluster.

    :raises UserError: naming what is missing, and what to do.
    """
    if svc.platform.isolation != "required":
        return
    if svc.platform.profile == "embedded":  # it was changed while the platform is up; it would not start again either
        raise UserError(refusal_on_one_machine(None))
    missing = missing_walls(svc.settings, svc.cluster, tenant)
    if missing:
        raise UserError(
            f"isolation is 'required' in platform.yaml, and tenant {tenant} is not kept apart: the cluster lacks "
            f"{'; '.join(missing)}. An administrator runs `ffdl tenants apply`."
        )

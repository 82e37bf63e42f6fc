"""What a manifest leaves open, filled in from its tenant and the platform before the job is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ffdl_ops.core.jobs.examples import EXAMPLES
from ffdl_ops.core.jobs.manifest import Manifest, load_manifest

if TYPE_CHECKING:
    from ffdl_ops.core.platform import PlatformConfig
    from ffdl_ops.core.tenancy.tenants import Tenant

__all__ = ["with_defaults"]


def with_defaults(manifest: Manifest, tenant: Tenant, platform: PlatformConfig) -> Manifest:
    """The manifest with every default written out: sizes by framework, the tenant's priority, an example's data set."""
    written = manifest.to_dict()
    size = platform.size_for(manifest.framework.name)
    filled: dict[str, Any] = {
        "cpus": size.cpus,
        "memory": size.memory,
        "priority": tenant.priority.default,
        **written,
    }
    example = EXAMPLES.get(manifest.example or "")
    if example is not None and example.data and not manifest.data_stores:
        data = {"container": f"{tenant.bucket}/{example.data}"}
        filled["data_stores"] = [{"id": "example", "type": "mount_cos", "training_data": data}]
    return load_manifest(filled)

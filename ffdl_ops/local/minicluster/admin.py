"""The client of minicluster's admin surface, where those look for it who use minicluster by itself."""

from __future__ import annotations

from ffdl_ops.adapters.cluster.embedded import AdminClient, AdminRefused

__all__ = ["AdminClient", "AdminRefused"]

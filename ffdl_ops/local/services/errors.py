"""What goes wrong with services."""

from __future__ import annotations

from ffdl_ops.core.errors import FfdlError

__all__ = ["ServiceFailed"]


class ServiceFailed(FfdlError):
    """A service that did not come up or did not stop; the message ends with the tail of its log."""

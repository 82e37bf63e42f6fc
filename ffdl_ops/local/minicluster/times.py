"""Moments as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["iso", "now_iso", "parse_time"]


def iso(seconds: float) -> str:
    """A moment in seconds since the epoch, to the second, as in ``creationTimestamp``."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_iso() -> str:
    """Now, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 text.

    :raises ValueError: when it is none.
    """
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()

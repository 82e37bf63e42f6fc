"""Services of a platform that do not answer for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from tests.support.platform import Platform

__all__ = ["suspended"]


@contextlib.contextmanager
def suspended(platform: Platform, service: str) -> Iterator[None]:
    """A service takes connections and answers none inside."""
    process = platform.stack.process(service).find()
    assert process is not None, f"{service} is not up"
    family = [process, *process.children(recursive=True)]
    for one in family:
        one.suspend()
    try:
        yield
    finally:
        for one in family:
            with contextlib.suppress(psutil.Error):
                one.resume()

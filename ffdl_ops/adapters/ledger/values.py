"""Values on their way into the database: what learners print may hold what PostgreSQL takes in no text and no JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Dialect, Text
from sqlalchemy.types import TypeDecorator

__all__ = ["AnyText", "clean_text", "dump_json"]


class AnyText(TypeDecorator[str]):
    """Text of any length; what can't be stored in it is replaced instead of failing the write."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """The text as it is stored."""
        return None if value is None else clean_text(value)


def clean_text(text: str) -> str:
    """The text without NUL characters and half surrogates, each replaced by U+FFFD."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def dump_json(value: Any) -> str:
    """JSON that PostgreSQL takes: clean texts, ``null`` for numbers that are none, words for what JSON has no form for."""
    return json.dumps(_clean(value), allow_nan=False, ensure_ascii=False)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(str(value))
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {clean_text(str(key)): _clean(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return [_clean(item) for item in sorted(value, key=str)]
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    return clean_text(str(value))

"""The manifest as a JSON Schema: made from the model, so that the two cannot drift apart."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

__all__ = ["manifest_schema"]


def manifest_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema (2020-12) of what the model accepts as input.

    What depends on several fields at once, on the tenant or on the cluster can't be expressed in it.
    """
    schema = model.model_json_schema(by_alias=True, mode="validation")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "ffdl-ops manifest"
    schema["properties"]["env"]["additionalProperties"] = False
    for part in (schema, *schema.get("$defs", {}).values()):
        _allow_empty_fields(part)
    # An example brings its framework and command with it.
    framework = schema["$defs"]["Framework"]
    framework["required"] = []
    schema["required"] = ["name"]
    complete = {"required": ["framework"], "properties": {"framework": {"required": ["name", "command"]}}}
    schema["if"] = {"required": ["example"], "properties": {"example": {"type": "string"}}}
    schema["else"] = complete
    return schema


def _allow_empty_fields(part: dict[str, Any]) -> None:
    """A field that may be left out may also be written and left empty."""
    required = set(part.get("required", ()))
    for name, field in part.get("properties", {}).items():
        if name not in required:
            part["properties"][name] = {"anyOf": [field, {"type": "null"}]}

"""Tools' parameter schemas, read once for each text."""

import json
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1024)
def parameters_of(text: str) -> dict[str, Any]:
    """Return a schema as an object; must not be changed by who gets it. Raises ValueError when it is none."""
    schema = json.loads(text) if text.strip() else {}
    if not isinstance(schema, dict):
        raise ValueError("a tool's parameters must be a JSON schema of an object")  # noqa: TRY004 one error kind
    if schema.get("type") != "object" or "properties" not in schema:
        schema = {**schema, "type": "object", "properties": schema.get("properties", {})}
    return schema

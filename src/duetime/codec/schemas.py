"""The JSON schema of a type: what callers that are not Python may send, and what forms are made from."""

from enum import Flag
from typing import Any

import msgspec
from msgspec import inspect

from duetime.codec.conversions import DEFINITIONS, schema_of

_FORMATS = {inspect.DateTimeType: "date-time", inspect.TimeType: "time"}
"""msgspec names these only where the zone is prescribed."""
_REFERENCE = f"#/{DEFINITIONS}/"


def json_schema(kind: Any) -> dict[str, Any]:
    """The schema of a type, with all definitions at the top."""
    schema = _hoisted(msgspec.json.schema(kind, schema_hook=schema_of))
    _complete(inspect.type_info(kind), schema, schema.get(DEFINITIONS, {}), set())
    return schema


def _hoisted(schema: dict[str, Any]) -> dict[str, Any]:
    """References look for definitions at the top. A model brings its own along."""
    found: dict[str, Any] = {}

    def without(part: Any) -> Any:
        if isinstance(part, list):
            return [without(each) for each in part]
        if not isinstance(part, dict):
            return part
        inner = part.get(DEFINITIONS)
        if isinstance(inner, dict) and all(isinstance(each, dict) for each in inner.values()):
            found.update({name: without(each) for name, each in inner.items()})
            part = {name: each for name, each in part.items() if name != DEFINITIONS}
        return {name: without(each) for name, each in part.items()}

    plain: dict[str, Any] = without(schema)
    return {**plain, DEFINITIONS: found} if found else plain


def _complete(info: inspect.Type, schema: dict[str, Any], definitions: dict[str, Any], seen: set[str]) -> None:
    """Follow a type and its schema side by side, and add what msgspec omits."""
    if (reference := schema.get("$ref")) is not None:
        if reference in seen:
            return
        seen.add(reference)
        schema = definitions[reference.removeprefix(_REFERENCE)]
    inner: list[tuple[inspect.Type, Any]] = []
    match info:
        case inspect.Metadata(type=kind):
            inner = [(kind, schema)]
        case inspect.UnionType(types=types):
            inner = list(zip(types, schema.get("anyOf", ()), strict=False))
        case inspect.DictType(value_type=kind):
            inner = [(kind, schema.get("additionalProperties"))]
        case inspect.TupleType(item_types=types):
            inner = list(zip(types, schema.get("prefixItems", ()), strict=False))
        case inspect.NamedTupleType(fields=fields):
            inner = [(field.type, each) for field, each in zip(fields, schema.get("prefixItems", ()), strict=False)]
        case inspect.StructType(fields=fields) | inspect.DataclassType(fields=fields):
            inner = [(field.type, schema.get("properties", {}).get(field.encode_name)) for field in fields]
        case inspect.TypedDictType(fields=fields):
            inner = [(field.type, schema.get("properties", {}).get(field.encode_name)) for field in fields]
        case inspect.EnumType(cls=kind) if issubclass(kind, Flag):
            schema.pop("enum", None)  # its members can be combined
            schema["type"] = "integer"
        case _ if type(info) in _FORMATS:
            schema.setdefault("format", _FORMATS[type(info)])
        case _:
            inner = [(getattr(info, "item_type", None), schema.get("items"))]  # type: ignore[list-item]
    for kind, part in inner:
        if isinstance(kind, inspect.Type) and isinstance(part, dict):
            _complete(kind, part, definitions, seen)

"""Checks arguments against a JSON schema that a worker has declared.

The schema becomes msgspec types, so that the answer is the one that a Python worker would give, with the same path, at
the same speed. A schema comes from a caller: its size and depth are bounded, nothing in it is fetched or executed, and
each definition is read once. Keywords that are not known here check nothing (`pattern` among them, because a regular
expression can take for ever), and inside itself a recursive definition accepts anything. The worker checks the rest.
"""

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from duetime.codec.conversions import DEFINITIONS
from duetime.codec.misfits import problem_of
from duetime.errors import InvalidInput

MOST_BYTES = 32 * 1024
MOST_PARTS = 1000
DEEPEST = 32
_TEXTS = {
    "date-time": datetime,
    "date": date,
    "time": time,
    "duration": timedelta,
    "uuid": UUID,
    "decimal": Decimal,
}
_NUMBERS = {"minimum": "ge", "exclusiveMinimum": "gt", "maximum": "le", "exclusiveMaximum": "lt"}
_LENGTHS = {
    str: {"minLength": "min_length", "maxLength": "max_length"},
    list: {"minItems": "min_length", "maxItems": "max_length"},
    dict: {"minProperties": "min_length", "maxProperties": "max_length"},
}
_BIGGEST = 2**63
_encoder = msgspec.json.Encoder()


def encode_schema(schema: object, field: str) -> bytes:
    """The stored form of a schema. Raises `InvalidInput` if it is not an object, or too large to be checked quickly."""
    if not isinstance(schema, dict):
        raise InvalidInput("is not a JSON schema", field=field, remedy='send an object, such as {"type": "object"}')
    if _parts(schema, 0) > MOST_PARTS:
        raise InvalidInput(
            f"has more than {MOST_PARTS:,} parts, or more than {DEEPEST} levels", field=field, remedy="omit it"
        )
    body = _encoder.encode(schema)
    if len(body) > MOST_BYTES:
        raise InvalidInput(
            f"{len(body):,} bytes of JSON exceed the limit of {MOST_BYTES:,}", field=field, remedy="omit it"
        )
    return body


class ArgumentCheck:
    """Checks arguments against one schema. Compiled once, in a few milliseconds at most."""

    def __init__(self, schema: bytes) -> None:
        self._kind = _Types(msgspec.json.decode(schema)).root()
        self._decoder = None if self._kind is Any else msgspec.json.Decoder(self._kind)

    def check(self, args: bytes) -> None:
        """Raises `InvalidInput` that names the path."""
        if self._decoder is not None:
            try:
                self._decoder.decode(args)
            except Exception as error:
                raise problem_of(error, "args", self._kind).as_input() from None


class _Types:
    """The types of a schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        definitions = schema.get(DEFINITIONS)
        self._definitions: dict[str, Any] = definitions if isinstance(definitions, dict) else {}
        self._known: dict[str, Any] = {}

    def root(self) -> Any:
        return self._checked(self._type(self._schema))

    def _checked(self, kind: Any) -> Any:
        """A type that msgspec supports, or `Any`."""
        try:
            msgspec.json.Decoder(kind)
        except (TypeError, ValueError, RecursionError):
            return Any
        return kind

    def _type(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            return Any
        if isinstance(schema.get("$ref"), str):
            return self._definition(schema["$ref"])
        if "const" in schema:
            return _literal([schema["const"]])
        if isinstance(schema.get("enum"), list):
            return _literal(schema["enum"])
        for name in ("anyOf", "oneOf"):
            if isinstance(schema.get(name), list) and schema[name]:
                return self._union([self._type(each) for each in schema[name]])
        if isinstance(schema.get("allOf"), list):
            return self._type(schema["allOf"][0]) if len(schema["allOf"]) == 1 else Any
        kinds = schema.get("type", "object" if "properties" in schema else None)
        if isinstance(kinds, list) and kinds:
            return self._union([self._plain(each, schema) for each in kinds])
        return self._plain(kinds, schema)

    def _definition(self, reference: str) -> Any:
        name = reference.removeprefix(f"#/{DEFINITIONS}/").replace("~1", "/").replace("~0", "~")
        if name not in self._known:
            self._known[name] = Any  # while it is read: it may contain itself
            self._known[name] = self._type(self._definitions.get(name))
        return self._known[name]

    def _union(self, kinds: list[Any]) -> Any:
        if Any in kinds:
            return Any
        return self._checked(reduce(or_, (type(None) if kind is None else kind for kind in kinds)))

    def _plain(self, kind: object, schema: dict[str, Any]) -> Any:
        match kind:
            case "null":
                return type(None)
            case "boolean":
                return bool
            case "integer":
                return _bounded(int, schema, _NUMBERS)
            case "number":
                return _bounded(float, schema, _NUMBERS)
            case "string" if schema.get("contentEncoding") == "base64":
                return bytes
            case "string":
                text = _TEXTS.get(schema.get("format", ""), str) if isinstance(schema.get("format", ""), str) else str
                return _bounded(str, schema, _LENGTHS[str]) if text is str else text
            case "array":
                return self._array(schema)
            case "object":
                return self._object(schema)
        return Any

    def _array(self, schema: dict[str, Any]) -> Any:
        first = schema.get("prefixItems")
        if isinstance(first, list) and schema.get("minItems") == schema.get("maxItems") == len(first):
            return tuple[tuple(self._type(each) for each in first)]  # type: ignore[misc]
        items = Any if first is not None else self._type(schema.get("items"))
        return _bounded(list[items], schema, _LENGTHS[list])  # type: ignore[valid-type]

    def _object(self, schema: dict[str, Any]) -> Any:
        properties, more = schema.get("properties"), schema.get("additionalProperties")
        if not isinstance(properties, dict) or (not properties and more is not False):
            return _bounded(dict[str, self._type(more)], schema, _LENGTHS[dict])  # type: ignore[misc]
        required = schema.get("required")
        needed = set(map(str, required)) if isinstance(required, list) else set()
        fields: list[tuple[Any, ...]] = []
        for index, (name, part) in enumerate(properties.items()):
            kind = self._type(part)
            if name in needed:
                fields.append((f"f{index}", kind))
            else:
                fields.append((f"f{index}", kind if kind is Any else kind | msgspec.UnsetType, msgspec.UNSET))
        return msgspec.defstruct(
            "Arguments",
            fields,
            rename={f"f{index}": name for index, name in enumerate(properties)},
            forbid_unknown_fields=more is False,
            kw_only=True,
        )


def _literal(values: list[Any]) -> Any:
    if not values or not all(value is None or type(value) in (str, int) for value in values):
        return Any
    if any(type(value) is int and not -_BIGGEST <= value < _BIGGEST for value in values):
        return Any
    return Literal[tuple(values)]


def _bounded(kind: Any, schema: dict[str, Any], names: dict[str, str]) -> Any:
    bounds: dict[str, Any] = {}
    for name, ours in names.items():
        bound = schema.get(name)
        if (type(bound) is int and abs(bound) < _BIGGEST) or (type(bound) is float and kind is float):
            bounds[ours] = bound
    try:
        return Annotated[kind, msgspec.Meta(**bounds)] if bounds else kind
    except (TypeError, ValueError):  # bounds that exclude each other, or negative lengths
        return kind


def _parts(value: object, depth: int) -> int:
    """How many objects, lists and values a schema consists of. Stops counting when there are too many."""
    if depth > DEEPEST:
        return MOST_PARTS + 1
    inner: Any = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = 1
    for each in inner:
        found += _parts(each, depth + 1)
        if found > MOST_PARTS:
            break
    return found

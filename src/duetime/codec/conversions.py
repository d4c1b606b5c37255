"""Classes that msgspec does not know, and their JSON: pydantic models, paths, time zones.

pydantic stays optional: its models are recognised by their attributes, without an import.
"""

from pathlib import PurePath
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

DEFINITIONS = "$defs"
_encode = msgspec.json.Encoder().encode


class Refused(ValueError):
    """A value that a model refuses. `path` leads to it from the model."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


def is_model(kind: type) -> bool:
    """Whether this is a pydantic model."""
    return hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_dump_json")


def is_known(kind: type) -> bool:
    """Whether this class has a conversion."""
    return kind is object or kind is ZoneInfo or issubclass(kind, PurePath) or is_model(kind)


def to_json(value: Any) -> Any:
    """The JSON of a value that msgspec cannot encode."""
    kind = type(value)
    if is_model(kind):
        return msgspec.Raw(kind.__pydantic_serializer__.to_json(value, by_alias=True, round_trip=True))
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, ZoneInfo) and value.key is not None:
        return value.key
    raise TypeError(f"{kind.__name__} is not JSON")


def from_json(kind: type, value: Any) -> Any:
    """The opposite: an instance of this class."""
    if kind is object:
        return value
    if is_model(kind):
        # As JSON and not as Python values: a strict model takes text for a datetime only from JSON.
        try:
            return kind.__pydantic_validator__.validate_json(_encode(value))  # type: ignore[attr-defined]
        except ValueError as error:
            raise _refused(error) from None
    if not isinstance(value, str):
        raise Refused(f"Expected `str`, got `{json_type(value)}`", "")
    if kind is ZoneInfo:
        try:
            return ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError):
            raise Refused(f"{value!r} is not a time zone", "") from None
    return kind(value)


def schema_of(kind: type) -> dict[str, Any]:
    """The JSON schema of one of these classes. `json_schema` moves the definitions that a model brings along."""
    if kind is object:
        return {}
    if is_model(kind):
        prefix = kind.__name__
        made: dict[str, Any] = kind.model_json_schema(ref_template=f"#/{DEFINITIONS}/{prefix}.{{model}}")  # type: ignore[attr-defined]
        if inner := made.pop(DEFINITIONS, None):
            made[DEFINITIONS] = {f"{prefix}.{name}": each for name, each in inner.items()}
        return made
    return {"type": "string", "format": "timezone" if kind is ZoneInfo else "path"}


def json_type(value: object) -> str:
    """The name of a JSON value's type, as msgspec writes it."""
    names = {type(None): "null", dict: "object", list: "array"}
    return names.get(type(value), type(value).__name__)


def _refused(error: ValueError) -> Refused:
    """The first complaint of a model."""
    errors: Any = getattr(error, "errors", None)
    if errors is None:
        return Refused(str(error), "")
    first = errors(include_url=False, include_context=False, include_input=False)[0]
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    return Refused(first["msg"], "".join(steps))

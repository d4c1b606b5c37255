"""Lookups in types: the allowed values of a field, and integers that are written as 1.0, which JSON Schema counts among
the integers.

They run only after a value was refused.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from msgspec import inspect

from duetime.errors import InvalidInput, not_a_choice

_CHOICE = re.compile(r"Invalid (?:enum )?value (?:'(?P<text>.*)'|(?P<number>-?[0-9]+))", re.DOTALL)
_PART = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")
_MOST_VALUES = 2_000
"""How many values are visited: each takes microseconds on the event loop."""
_BITS = 2.0**63


def allowed_values(to: Any, place: str) -> tuple[str, ...]:
    """The allowed values of a field, if its type lists them. `place` is its path, such as `retry.mode` or
    `jobs[3].overlap`."""
    outer, _, last = place.rpartition(".")
    structs = [each for each in _kinds_at(to, outer) if isinstance(each, inspect.StructType)]
    if tags := [each.tag for each in structs if each.tag_field == last]:
        return tuple(dict.fromkeys(map(str, tags)))
    found: list[str] = []
    for each in _kinds_at(to, place):
        if isinstance(each, inspect.LiteralType):
            found += [str(value) for value in each.values]
        elif isinstance(each, inspect.EnumType):
            found += [str(member.value) for member in each.cls]
    return tuple(dict.fromkeys(found))


def known_fields(to: Any, place: str, unknown: str) -> tuple[str, ...]:
    """The fields of the object at a path, which has no field `unknown`: of several kinds, it is one without it."""
    structs = [each for each in _kinds_at(to, place) if isinstance(each, inspect.StructType)]
    fields = [[field.encode_name for field in each.fields] for each in structs]
    return tuple(dict.fromkeys(name for names in fields if unknown not in names for name in names))


def _kinds_at(to: Any, place: str) -> list[inspect.Type]:
    kinds = list(_plain(_info(to)))
    for match in _PART.finditer(place):
        kinds = [inner for each in kinds for inner in _inside(each, match[1])]
    return kinds


def choice_error(reason: str, to: Any, place: str) -> InvalidInput | None:
    """The error for a value that msgspec refuses because it is in no closed list of the field."""
    found = _CHOICE.fullmatch(reason)
    values = allowed_values(to, place) if found is not None else ()
    if found is None or not values:
        return None
    return not_a_choice(found["text"] if found["number"] is None else int(found["number"]), values)


def with_integers(value: Any, to: Any) -> Any:
    """The value with integers in place of equal floats, wherever its type requires an integer."""
    return _Integers().of(value, _info(to))


@lru_cache(maxsize=256)
def _info(to: Any) -> inspect.Type:
    return inspect.type_info(to)


def _plain(kind: inspect.Type) -> Iterator[inspect.Type]:
    """The alternatives of a type."""
    if isinstance(kind, inspect.Metadata):
        yield from _plain(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _plain(each)
    else:
        yield kind


def _inside(kind: inspect.Type, name: str | None) -> Iterator[inspect.Type]:
    """The type of a field of this kind, or (None) of its items."""
    match kind:
        case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType() | inspect.NamedTupleType():
            for field in kind.fields:
                if field.encode_name == name:
                    yield from _plain(field.type)
        case inspect.DictType():
            yield from _plain(kind.value_type)
        case inspect.CollectionType() if name is None:
            yield from _plain(kind.item_type)
        case inspect.TupleType() if name is None:
            for item in kind.item_types:
                yield from _plain(item)


class _Integers:
    def __init__(self) -> None:
        self._left = _MOST_VALUES
        self._kinds: dict[int, list[inspect.Type]] = {}
        """The alternatives of each type, by its identity: they are needed for every item of a list."""

    def of(self, value: Any, kind: inspect.Type) -> Any:
        self._left -= 1
        if self._left < 0:
            return value
        kinds = self._kinds.get(id(kind))
        if kinds is None:
            kinds = self._kinds[id(kind)] = list(_plain(kind))
        if isinstance(value, float):
            wanted = any(isinstance(each, inspect.IntType) for each in kinds)
            wanted = wanted and not any(isinstance(each, inspect.FloatType | inspect.AnyType) for each in kinds)
            return int(value) if wanted and value.is_integer() and abs(value) < _BITS else value
        if isinstance(value, dict | list) and len(value) <= self._left:
            for each in kinds:
                value = self._within(value, each)
        return value

    def _within(self, value: Any, kind: inspect.Type) -> Any:
        match kind, value:
            case inspect.StructType(), dict():
                types = {field.encode_name: field.type for field in kind.fields}
                return {name: self.of(each, types[name]) if name in types else each for name, each in value.items()}
            case inspect.DictType(), dict():
                return {name: self.of(each, kind.value_type) for name, each in value.items()}
            case inspect.CollectionType(), list():
                return [self.of(each, kind.item_type) for each in value]
        return value

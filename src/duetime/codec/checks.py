"""Checks of Python values against their annotation, before they are encoded.

Encoders are lenient: a datetime given for a `str` becomes text, `"abcd"` given for `bytes` becomes three other bytes,
NaN becomes null. Decoding alone cannot see that. These checks compare the types of the values, down to the leaves.
"""

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, get_origin
from uuid import UUID

from msgspec import inspect

from duetime.codec.conversions import is_model
from duetime.errors import InvalidInput, not_a_choice
from duetime.model import json

Check = Callable[[Any], None]
"""Returns, or raises `Misfit`."""
_MISSING = object()
_EXACT: dict[type[inspect.Type], type] = {
    inspect.StrType: str,
    inspect.BoolType: bool,
    inspect.NoneType: type(None),
    inspect.BytesType: bytes,
    inspect.ByteArrayType: bytearray,
}
_INSTANCES: dict[type[inspect.Type], type] = {
    inspect.MemoryViewType: memoryview,
    inspect.DateTimeType: datetime,
    inspect.TimeType: time,
    inspect.TimeDeltaType: timedelta,
    inspect.UUIDType: UUID,
    inspect.DecimalType: Decimal,
}
_ARRAYS = (list, tuple)
_SETS = (set, frozenset)
_LITERALS = (str, int, type(None))
_BIGGEST = 2**63


class Misfit(Exception):
    """A value that does not fit its annotation."""

    def __init__(self, message: str, path: str = "", remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.remedy = remedy

    def under(self, step: str) -> "Misfit":
        return Misfit(self.message, step + self.path, self.remedy)


class CheckBuilder:
    """Makes the checks of types. A class that contains itself is followed once."""

    def __init__(self) -> None:
        self._of_classes: dict[Any, Check] = {}

    def check_of(self, info: inspect.Type) -> Check:
        match info:
            case inspect.AnyType() | inspect.RawType():
                return _check_json
            case inspect.Metadata(type=inner):
                return self.check_of(inner)
            case inspect.IntType():
                return _check_int
            case inspect.FloatType():
                return _check_float
            case inspect.DateType():
                return _check_date
            case inspect.LiteralType(values=values):
                return _literal(values)
            case inspect.CustomType(cls=kind) if kind is object:
                return _check_json
            case inspect.CustomType(cls=kind):
                return _exact(kind) if is_model(kind) else _instance(kind)
            case inspect.EnumType(cls=kind):
                return _exact(kind)
            case inspect.UnionType(types=types):
                return self._union(types)
            case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
                return _items(_ARRAYS, "list", self.check_of(item))
            case inspect.SetType(item_type=item) | inspect.FrozenSetType(item_type=item):
                return _items(_SETS, "set", self.check_of(item))
            case inspect.TupleType(item_types=items):
                return _tuple([self.check_of(item) for item in items])
            case inspect.DictType(key_type=key, value_type=value):
                key_check = self.check_of(inspect.StrType() if isinstance(key, inspect.AnyType) else key)
                return _dict(key_check, self.check_of(value))
            case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType() | inspect.NamedTupleType():
                return self._fields(info)
        kind = type(info)
        if kind in _EXACT:
            return _exact(_EXACT[kind])
        if kind in _INSTANCES:
            return _instance(_INSTANCES[kind])
        return lambda value: None  # decoding checks it

    def _union(self, types: Sequence[inspect.Type]) -> Check:
        others = [self.check_of(each) for each in types if not isinstance(each, inspect.NoneType)]
        optional = len(others) < len(types)

        def check_optional(value: Any) -> None:
            if value is not None:
                others[0](value)

        def check_one_of(value: Any) -> None:
            if value is None and optional:
                return
            refusals = []
            for check in others:
                try:
                    check(value)
                except Misfit as misfit:
                    refusals.append(misfit)
                else:
                    return
            # A refusal with a path looked inside the value, so that type was the right one.
            inside = max(refusals, key=lambda each: len(each.path))
            if inside.path:
                raise inside
            raise Misfit(f"expected {' | '.join(_name(each) for each in types)}, got {_shown(value)}")

        return check_optional if optional and len(others) == 1 else check_one_of

    def _fields(
        self, info: inspect.StructType | inspect.DataclassType | inspect.TypedDictType | inspect.NamedTupleType
    ) -> Check:
        if info.cls in self._of_classes:
            return self._of_classes[info.cls]
        kind = get_origin(info.cls) or info.cls  # objects of Page[int] are of the class Page
        checks: dict[str, Check] = {}

        def check_object(value: Any) -> None:
            if type(value) is not kind:
                raise _unexpected(value, kind)
            for name, check in checks.items():
                try:
                    if (found := getattr(value, name, _MISSING)) is not _MISSING:
                        check(found)
                except Misfit as misfit:
                    raise misfit.under(f".{name}") from None

        def check_keys(value: Any) -> None:
            if not isinstance(value, dict):
                raise _unexpected(value, kind)
            for name, found in value.items():
                if (check := checks.get(name)) is None:
                    raise Misfit(f"{name!r} is not a key of {kind.__name__}")
                try:
                    check(found)
                except Misfit as misfit:
                    raise misfit.under(f".{name}") from None

        made: Check = check_keys if isinstance(info, inspect.TypedDictType) else check_object
        self._of_classes[info.cls] = made
        checks |= {field.name: self.check_of(field.type) for field in info.fields}
        return made


def _check_json(value: Any) -> None:
    try:
        json.check(value, "")
    except InvalidInput as error:
        raise Misfit(error.message, error.field or "", error.remedy) from None


def _check_int(value: Any) -> None:
    if type(value) is not int:
        raise _unexpected(value, int)
    if not -_BIGGEST <= value < _BIGGEST:
        raise Misfit("the integer does not fit in 64 bits", remedy="pass it as text")


def _check_float(value: Any) -> None:
    if type(value) is not float:
        if type(value) is not int:
            raise _unexpected(value, float)
        _check_int(value)
        if float(value) != value:
            raise Misfit(f"{value} is not exact as a float", remedy="annotate it as int")
    elif not math.isfinite(value):
        raise Misfit(f"{value} cannot be represented in JSON")


def _check_date(value: Any) -> None:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise Misfit(f"expected date, got {_shown(value)}")


def _literal(values: Sequence[Any]) -> Check:
    def check(value: Any) -> None:
        if type(value) not in _LITERALS or value not in values:
            error = not_a_choice(value, values)
            raise Misfit(error.message, remedy=error.remedy)

    return check


def _exact(kind: type) -> Check:
    def check(value: Any) -> None:
        if type(value) is not kind:
            raise _unexpected(value, kind)

    return check


def _instance(kind: type) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, kind):
            raise _unexpected(value, kind)

    return check


def _items(kinds: tuple[type[Any], ...], name: str, check: Check) -> Check:
    def check_items(value: Any) -> None:
        if not isinstance(value, kinds):
            raise Misfit(f"expected {name}, got {_shown(value)}")
        for index, item in enumerate(value):
            try:
                check(item)
            except Misfit as misfit:
                raise misfit.under(f"[{index}]") from None

    return check_items


def _tuple(checks: Sequence[Check]) -> Check:
    def check_tuple(value: Any) -> None:
        if not isinstance(value, _ARRAYS):
            raise _unexpected(value, tuple)
        if len(value) != len(checks):
            raise Misfit(f"expected {len(checks)} items, got {len(value)}")
        for index, (check, item) in enumerate(zip(checks, value, strict=True)):
            try:
                check(item)
            except Misfit as misfit:
                raise misfit.under(f"[{index}]") from None

    return check_tuple


def _dict(check_key: Check, check_value: Check) -> Check:
    def check_dict(value: Any) -> None:
        if not isinstance(value, dict):
            raise _unexpected(value, dict)
        for key, item in value.items():
            try:
                check_key(key)
                check_value(item)
            except Misfit as misfit:
                raise misfit.under(f".{key}") from None

    return check_dict


def _unexpected(value: object, kind: type) -> Misfit:
    if isinstance(value, kind) and kind is not int:
        return Misfit(
            f"expected {kind.__name__}, got its subclass {type(value).__name__}",
            remedy=f"the task would get a {kind.__name__}",
        )
    return Misfit(f"expected {kind.__name__}, got {_shown(value)}")


def _shown(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _name(info: inspect.Type) -> str:
    kind = getattr(info, "cls", None)
    return kind.__name__ if kind is not None else type(info).__name__.removesuffix("Type").lower()

"""The types that a function declares, and which of them JSON can carry.

What JSON cannot tell apart (`datetime | str` are both text) and classes without a JSON form are refused when the
function becomes a task, not when its first job fails.
"""

import sys
import types
from collections.abc import Callable, Iterator
from functools import reduce
from inspect import Parameter, Signature
from operator import or_
from typing import Annotated, Any, Never, NoReturn, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import inspect

from duetime.codec.conversions import is_known
from duetime.errors import InvalidInput
from duetime.model.outcome import Signal


class Json:
    """`Annotated[T, duetime.Json]`: this parameter or result is plain JSON. It is not checked or converted by its
    annotation."""


_PACKAGE = __name__.partition(".")[0]
_PASS_AS_JSON = "pass plain JSON with Annotated[…, duetime.Json]"
_KEYS = (
    inspect.AnyType,
    inspect.StrType,
    inspect.IntType,
    inspect.FloatType,
    inspect.EnumType,
    inspect.LiteralType,
    inspect.UUIDType,
    inspect.DateType,
    inspect.DateTimeType,
    inspect.TimeType,
    inspect.TimeDeltaType,
    inspect.DecimalType,
    inspect.BytesType,
)
_UNHASHABLE = (inspect.ListType, inspect.DictType, inspect.SetType, inspect.TypedDictType)
_UNIONS = (Union, types.UnionType)
_SAME_IN_JSON = (
    ("str-like", "these are all text in JSON: use one of them, or"),
    ("int-like", "these are all numbers in JSON: use one of them, or"),
    ("array-like", "these are all arrays in JSON: use one of them, or"),
    ("dataclass", "these are all objects in JSON: use one of them, tagged msgspec.Structs, or"),
    ("dict-like", "these are all objects in JSON: use one of them, tagged msgspec.Structs, or"),
    ("Struct", "these are all objects in JSON: give the Structs a tag, or"),
    ("custom type", "such a class stands alone or with None: use only that, or"),
    ("Enums", "give its members text or integers, or"),
)


def parameter_types(function: Callable[..., Any], signature: Signature) -> dict[str, Any] | None:
    """The type of each parameter; `Any` for one without annotation. None: there is nothing to obey."""
    parameters = signature.parameters.values()
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        return None
    found = {each.name: _parameter_type(function, each) for each in parameters}
    return None if all(each is Any for each in found.values()) else found


def result_type(function: Callable[..., Any], signature: Signature) -> Any:
    """The type of the result; `Any` when there is nothing to obey. A function that returns None may still complete its
    run with a result, in its own transaction."""
    declared = signature.return_annotation
    if declared is Signature.empty:
        return Any
    found = _resolved(function, "return", declared)
    if found in (None, type(None), Never, NoReturn) or _is_signal(found):
        return Any
    if get_origin(found) in _UNIONS:  # it may return a signal, such as Snooze, in place of a result
        kept = tuple(each for each in get_args(found) if not _is_signal(each))
        if not kept:
            return Any
        found = reduce(or_, kept)
    return _accepted(function, "return", found)


def _parameter_type(function: Callable[..., Any], parameter: Parameter) -> Any:
    if parameter.annotation is Parameter.empty:
        return Any
    found = _resolved(function, parameter.name, parameter.annotation)
    accepted = _accepted(function, parameter.name, found)
    return accepted | None if parameter.default is None and accepted is not Any else accepted


def _resolved(function: Callable[..., Any], name: str, annotation: Any) -> Any:
    """An annotation, evaluated if it is text: with the names of the function's module, or of the function or class that
    the task is defined in."""
    names = getattr(function, "__globals__", {})
    try:
        try:
            return get_type_hints(_Holder({name: annotation}), names, None, include_extras=True)[name]
        except NameError:
            return get_type_hints(_Holder({name: annotation}), names, _names_around(), include_extras=True)[name]
    except NameError as error:
        remedy = "define or import it before the task, and not under `if TYPE_CHECKING`"
        raise _refusal(function, name, f"{annotation!r} cannot be resolved: {error}", remedy) from None
    except (TypeError, SyntaxError, AttributeError) as error:
        raise _refusal(function, name, f"{annotation!r} is not a type: {error}", _PASS_AS_JSON) from None


def _names_around() -> dict[str, Any]:
    """The local names where the decorator is used."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return dict(frame.f_locals)


class _Holder:
    """What `get_type_hints` reads the annotations of."""

    def __init__(self, annotations: dict[str, Any]) -> None:
        self.__annotations__ = annotations


def _accepted(function: Callable[..., Any], name: str, found: Any) -> Any:
    """A type that JSON can carry. `Any` if it is to pass unchecked."""
    if get_origin(found) is Annotated and any(each is Json or isinstance(each, Json) for each in found.__metadata__):
        return Any
    if found is Any or found is object:
        return Any
    if any(isinstance(each, TypeVar | ParamSpec) for each in (found, *getattr(found, "__parameters__", ()))):
        raise _refusal(function, name, "a generic function cannot be a task", "name the types")
    try:
        info = inspect.type_info(found)
    except (TypeError, NameError) as error:
        message = str(error)
        known = _SAME_IN_JSON if "unions" in message or "Enums" in message else ()
        remedy = next((text for part, text in known if part in message), "")
        raise _refusal(
            function, name, f"JSON cannot carry {_shown(found)}", f"{remedy} {_PASS_AS_JSON}".strip()
        ) from None
    for part in _parts(info, set()):
        _check_part(function, name, part)
    for constraint in _constraints(found):
        package = type(constraint).__module__.partition(".")[0]
        if package in ("pydantic", "annotated_types"):
            message = f"{type(constraint).__name__} of {package} is not checked here"
            raise _refusal(function, name, message, "use msgspec.Meta, such as msgspec.Meta(gt=5), or a pydantic model")
    return found


def _constraints(found: Any) -> Iterator[Any]:
    """What annotations say of values beside their types."""
    if get_origin(found) is Annotated:
        yield from found.__metadata__
    for part in get_args(found):
        yield from _constraints(part)


def _check_part(function: Callable[..., Any], name: str, part: inspect.Type) -> None:
    match part:
        case inspect.CustomType(cls=kind) if not is_known(kind):
            remedy = f"use a dataclass, an attrs class or a pydantic model, or {_PASS_AS_JSON}"
            raise _refusal(function, name, f"{_shown(kind)} has no JSON form", remedy)
        case inspect.DataclassType(cls=kind) if private := _private_fields(kind):
            message = f"the private field {private[0]} of {_shown(kind)} would be lost in JSON"
            raise _refusal(function, name, message, f"rename it, use a dataclass, or {_PASS_AS_JSON}")
        case inspect.DictType(key_type=key) if not isinstance(key, _KEYS):
            raise _refusal(function, name, "JSON objects have text as keys", "use one type, such as str, int or UUID")
        case inspect.SetType(item_type=item) | inspect.FrozenSetType(item_type=item) if isinstance(item, _UNHASHABLE):
            raise _refusal(function, name, "the items of a set must be hashable", "use a list")


def _private_fields(kind: Any) -> list[str]:
    """The fields of an attrs class that the encoder omits. It encodes those of dataclasses."""
    fields = getattr(get_origin(kind) or kind, "__attrs_attrs__", ())
    return [each.name for each in fields if each.name.startswith("_")]


def parts_of(found: Any) -> Iterator[inspect.Type]:
    """A type and all that it is made of, each once."""
    return _parts(inspect.type_info(found), set())


def _parts(info: inspect.Type, seen: set[int]) -> Iterator[inspect.Type]:
    if id(info) in seen:
        return
    seen.add(id(info))
    yield info
    inner: list[Any] = [getattr(info, name, None) for name in ("type", "item_type", "key_type", "value_type")]
    inner += getattr(info, "types", ()) + getattr(info, "item_types", ())
    inner += [field.type for field in getattr(info, "fields", ())]
    for each in inner:
        if isinstance(each, inspect.Type):
            yield from _parts(each, seen)


def _is_signal(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Signal)


def _refusal(function: Callable[..., Any], name: str, message: str, remedy: str) -> InvalidInput:
    what = "its result" if name == "return" else f"the parameter {name!r}"
    return InvalidInput(f"{function.__qualname__}: {what}: {message}", field="task", remedy=remedy)


def _shown(kind: Any) -> str:
    if isinstance(kind, type) and get_origin(kind) is None:
        return kind.__qualname__
    return str(kind).replace("typing.", "")


def has_only_plain_leaves(found: Any) -> bool:
    """Whether the check of its Python type says all about such a value, so that it need not be decoded."""
    return found in (str, int, bool, float, None, Any) or (
        get_origin(found) in _UNIONS and set(get_args(found)) in ({str, type(None)}, {int, type(None)})
    )

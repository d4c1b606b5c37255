"""The codecs of a task: its arguments and its result as JSON, by its annotations.

What is accepted is read back exactly as it was given, with the types of the annotations. Submitting checks the Python
values, encodes them, and decodes the bytes once, which finds everything that would fail before the call. Defaults are
not stored, so that a new default applies to waiting jobs.

A function without annotations has no codecs: its arguments are plain JSON.
"""

from collections.abc import Callable, Mapping
from inspect import Signature
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect

from duetime.codec.annotations import has_only_plain_leaves, parameter_types, parts_of, result_type
from duetime.codec.checks import Check, CheckBuilder, Misfit
from duetime.codec.conversions import from_json, is_model, to_json
from duetime.codec.misfits import problem_of
from duetime.codec.schemas import json_schema
from duetime.errors import InvalidInput, PayloadMismatch
from duetime.model import json

R_co = TypeVar("R_co", covariant=True)
_encoder = msgspec.json.Encoder(enc_hook=to_json)
_IMMUTABLE = (str, int, float, bool, type(None))
_CALL = """
def call(args, context):
    try:
        given = decode(args)
    except Exception as error:
        raise mismatch(error) from None
    return function({arguments})
"""


class ArgumentCodec:
    """The arguments of a task."""

    def __init__(self, task: str, signature: Signature, types: Mapping[str, Any]) -> None:
        self.task = task
        self._types = types
        fields = [(name, types[name], *_default(signature.parameters[name].default)) for name in types]
        self._struct = msgspec.defstruct(
            task.rpartition(".")[2] or task, fields, forbid_unknown_fields=True, kw_only=True
        )
        self._decoder = msgspec.json.Decoder(self._struct, dec_hook=from_json)
        builder = CheckBuilder()
        self._checks = {name: builder.check_of(inspect.type_info(each)) for name, each in types.items()}
        self._plain = all(has_only_plain_leaves(each) for each in types.values())
        self._models = [name for name, each in types.items() if _holds_models(each)]

    def encode(self, args: Mapping[str, Any], limit: int | None = None) -> bytes:
        """The arguments as they are stored. Raises `InvalidInput` that names the path."""
        checks = self._checks
        name = ""
        try:
            for name, value in args.items():
                checks[name](value)
            body = _encoder.encode(args)
        except Misfit as misfit:
            raise _invalid(misfit, f"args.{name}") from None
        except Exception as error:
            raise _unencodable(error, args, "args") from None
        if limit is not None and len(body) > limit:
            raise json.too_large(len(body), "args", limit)
        if not self._plain:
            try:
                decoded = self._decoder.decode(body)
            except Exception as error:
                raise problem_of(error, "args", self._struct).as_input() from None
            for name in self._models:
                _check_survived(args.get(name), getattr(decoded, name), f"args.{name}")
        return body

    def decode(self, body: bytes) -> dict[str, Any]:
        """The stored arguments, without defaults. Raises `PayloadMismatch`."""
        try:
            decoded = self._decoder.decode(body)
        except Exception as error:
            raise self.mismatch(error) from None
        return {name: getattr(decoded, name) for name in json.decode(body)}

    def mismatch(self, error: Exception) -> PayloadMismatch:
        return problem_of(error, "args", self._struct).as_mismatch(self.task)

    def caller(
        self, function: Callable[..., Any], context_name: str | None
    ) -> Callable[[bytes, Callable[[], Any]], Any]:
        """Decodes stored arguments and calls the function with them, in one compiled function."""
        given = [] if context_name is None else [f"{context_name}=context()"]
        arguments = ", ".join([*given, *(f"{name}=given.{name}" for name in self._types)])
        names: dict[str, Any] = {"decode": self._decoder.decode, "mismatch": self.mismatch, "function": function}
        exec(_CALL.format(arguments=arguments), names)
        made: Callable[[bytes, Callable[[], Any]], Any] = names["call"]
        return made

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return json_schema(self._struct)


class ResultCodec(Generic[R_co]):
    """The result of a task."""

    def __init__(self, task: str, kind: Any) -> None:
        self.task = task
        self._kind = kind
        self._decoder: msgspec.json.Decoder[R_co] = msgspec.json.Decoder(kind, dec_hook=from_json)
        self._check: Check = CheckBuilder().check_of(inspect.type_info(kind))
        self._plain = has_only_plain_leaves(kind)
        self._models = _holds_models(kind)
        try:
            self._decoder.decode(b"null")
            self.takes_none = True
        except Exception:
            self.takes_none = False

    def encode(self, value: object) -> bytes:
        """The result as it is stored. Raises `InvalidInput` that names the path."""
        try:
            self._check(value)
            body = _encoder.encode(value)
        except Misfit as misfit:
            raise _invalid(misfit, "result") from None
        except Exception as error:
            raise _unencodable(error, value, "result") from None
        if not self._plain:
            try:
                decoded = self._decoder.decode(body)
            except Exception as error:
                raise problem_of(error, "result", self._kind).as_input() from None
            if self._models:
                _check_survived(value, decoded, "result")
        return body

    def decode(self, body: bytes | None) -> R_co:
        """The stored result. Raises `PayloadMismatch`."""
        try:
            return self._decoder.decode(b"null" if body is None else body)
        except Exception as error:
            raise problem_of(error, "result", self._kind).as_mismatch(self.task) from None

    def schema(self) -> dict[str, Any]:
        return json_schema(self._kind)


def argument_codec(task: str, function: Callable[..., Any], signature: Signature) -> ArgumentCodec | None:
    """None: the arguments are plain JSON. Raises `InvalidInput` for annotations that JSON cannot carry."""
    types = parameter_types(function, signature)
    return None if types is None else ArgumentCodec(task, signature, types)


def result_codec(task: str, function: Callable[..., Any], signature: Signature) -> ResultCodec[Any] | None:
    kind = result_type(function, signature)
    return None if kind is Any else ResultCodec(task, kind)


def _default(value: Any) -> tuple[Any, ...]:
    """The default of a field. Only those that cannot change are part of the schema."""
    if value is Signature.empty:
        return ()
    return (value,) if type(value) in _IMMUTABLE else (msgspec.field(default_factory=lambda: value),)


def _holds_models(kind: Any) -> bool:
    return any(isinstance(part, inspect.CustomType) and is_model(part.cls) for part in parts_of(kind))


def _invalid(misfit: Misfit, root: str) -> InvalidInput:
    return InvalidInput(misfit.message, field=root + misfit.path, remedy=misfit.remedy)


def _unencodable(error: Exception, value: object, root: str) -> InvalidInput:
    """The reason why encoding failed, with its path if that can be found."""
    try:
        json.check(msgspec.to_builtins(value, str_keys=True, enc_hook=_plain), root)
    except InvalidInput as found:
        return found
    except Exception:
        pass
    return InvalidInput(f"cannot be represented in JSON: {error or type(error).__name__}", field=root)


def _plain(value: Any) -> Any:
    made = to_json(value)
    return json.decode(bytes(made)) if isinstance(made, msgspec.Raw) else made


def _check_survived(given: object, decoded: object, path: str) -> None:
    """A model may hide a secret, exclude a field or have private attributes: then JSON loses them."""
    if given is not None and type(given) is type(decoded) and given != decoded:
        raise InvalidInput(
            f"{type(given).__name__} is not the same after JSON",
            field=path,
            remedy="fields that are secret, private or excluded are not stored",
        )

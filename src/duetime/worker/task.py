"""A task as a worker sees it: a named Python function, and where it runs."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import Any

import msgspec

from duetime.codec.schema_types import encode_schema
from duetime.codec.task_codec import ArgumentCodec, ResultCodec, argument_codec, result_codec
from duetime.errors import InvalidInput
from duetime.model import json
from duetime.model.target import KUBERNETES, SHELL
from duetime.worker.context import BaseContext
from duetime.worker.hooks import Hooks
from duetime.worker.middleware import Middleware


class Place(IntEnum):
    """Where an attempt runs. Each place has its own slots. Integers, because they are indexes for every run."""

    LOOP = 0
    """Async functions, on the event loop."""
    THREAD = 1
    """Plain functions, in a thread."""
    PROCESS = 2
    """Functions with `process=True`, in their own process that can be killed."""
    CALL = 3
    """Targets that are called over the network, on the event loop."""
    COMMAND = 4
    """Targets that are commands, each in its own process group."""
    CLUSTER = 5
    """Targets that run in a cluster, and are only tracked here: for hours, and at little cost."""


_ALL_SCHEMAS = 4 * 1024**2
"""Bytes that the schemas of a worker may have together: it sends them when it registers."""
Call = Callable[[bytes, Callable[[], BaseContext]], Any]
"""Takes the stored arguments, and what creates the context."""


def _no_call(args: bytes, context: Callable[[], BaseContext]) -> Any:
    raise AssertionError("a target is not a function")


class TaskDefinition(msgspec.Struct, frozen=True):
    name: str
    function: Callable[..., Any]
    place: Place
    context_name: str | None
    """The parameter that receives the context, if the function has one."""
    signature: inspect.Signature
    """Without the context."""
    required: frozenset[str] = frozenset()
    known: frozenset[str] | None = None
    """The names of its parameters; None when it takes any."""
    arguments: ArgumentCodec | None = None
    """None: they are plain JSON."""
    result: ResultCodec[Any] | None = None
    returns_none: bool = True
    """Whether it may return None."""
    call: Call = _no_call
    """Calls the function with its stored arguments. Raises `PayloadMismatch` if they do not fit."""
    hooks: Hooks = msgspec.field(default_factory=Hooks)
    """Called after its attempts, in addition to those of the app."""
    around: Sequence[Middleware] = ()
    """The middleware of its app. More may be added later."""

    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments. Without annotations it has only their names."""
        if self.arguments is not None:
            return self.arguments.schema()
        return {
            "type": "object",
            "properties": {name: {} for name in self.signature.parameters if self.known is None or name in self.known},
            "required": sorted(self.required),
            "additionalProperties": self.known is None,
        }

    def decode(self, body: bytes) -> dict[str, Any]:
        """Stored arguments as the function gets them, without defaults."""
        return json.decode(body) if self.arguments is None else self.arguments.decode(body)

    def encode_result(self, value: object) -> bytes:
        """A result as it is stored. Raises `InvalidInput` if it has no JSON form, or does not fit its annotation."""
        return json.encode(value, field="result") if self.result is None else self.result.encode(value)

    def decode_result(self, body: bytes | None) -> Any:
        """A stored result as the function returned it."""
        if self.result is not None:
            return self.result.decode(body)
        return None if body is None else json.decode(body)

    def misfit(self, error: TypeError) -> InvalidInput:
        """The refusal of arguments that the function cannot be called with."""
        return InvalidInput(f"the arguments do not match {self.name}{self.signature}: {error}", field="args")


def define(
    name: str, function: Callable[..., Any], *, process: bool = False, around: Sequence[Middleware] = ()
) -> TaskDefinition:
    """Inspect a function once, when it becomes a task."""
    signature = inspect.signature(function)
    context_name = None
    kept = []
    for place, parameter in enumerate(signature.parameters.values()):
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise InvalidInput(
                f"{function.__qualname__} has the positional parameter {parameter.name!r}",
                field="task",
                remedy="arguments are stored by name: use ordinary or keyword-only parameters",
            )
        if place == 0 and parameter.name == "self":
            raise InvalidInput(
                f"{function.__qualname__} is a method", field="task", remedy="use a function or a static method"
            )
        if parameter.name == "ctx" or _is_context(parameter.annotation):
            if place:
                raise InvalidInput(
                    f"the context {parameter.name!r} is not the first parameter of {function.__qualname__}",
                    field="task",
                    remedy="put it first",
                )
            context_name = parameter.name
        else:
            kept.append(parameter)
    where = Place.PROCESS if process else Place.LOOP if inspect.iscoroutinefunction(function) else Place.THREAD
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in kept)
    named = [parameter for parameter in kept if parameter.kind is not parameter.VAR_KEYWORD]
    plain = signature.replace(parameters=kept)
    arguments, result = argument_codec(name, function, plain), result_codec(name, function, plain)
    return TaskDefinition(
        name,
        function,
        where,
        context_name,
        plain,
        required=frozenset(parameter.name for parameter in named if parameter.default is parameter.empty),
        known=None if takes_any else frozenset(parameter.name for parameter in named),
        arguments=arguments,
        result=result,
        returns_none=result is None or result.takes_none,
        call=_caller(function, context_name) if arguments is None else arguments.caller(function, context_name),
        around=around,
    )


def _caller(function: Callable[..., Any], context_name: str | None) -> Call:
    """Calls a function with plain JSON."""
    decode = json.decode
    if context_name is None:
        return lambda args, context: function(**decode(args))

    def call(args: bytes, context: Callable[[], BaseContext]) -> Any:
        arguments = decode(args)
        arguments[context_name] = context()
        return function(**arguments)

    return call


def argument_schemas(tasks: Iterable[TaskDefinition]) -> dict[str, bytes]:
    """The JSON schemas of the arguments of tasks. Those that are too large are omitted."""
    found: dict[str, bytes] = {}
    room = _ALL_SCHEMAS
    for task in tasks:
        with suppress(InvalidInput):
            schema = encode_schema(task.schema(), task.name)
            room -= len(schema)
            if room >= 0:
                found[task.name] = schema
    return found


def _is_context(annotation: object) -> bool:
    if isinstance(annotation, type):
        return issubclass(annotation, BaseContext)
    return isinstance(annotation, str) and annotation.rpartition(".")[2] in ("Context", "SyncContext")


def target_definition(kind: str) -> TaskDefinition:
    """The definition of a kind of target, with the place where it runs. It has no function."""
    place = {SHELL: Place.COMMAND, KUBERNETES: Place.CLUSTER}.get(kind, Place.CALL)
    return TaskDefinition(kind, _no_call, place, None, inspect.Signature())

"""Middleware: generators of the app that run around each attempt of its tasks.

The part before `yield` runs before the function, the rest after it. The first middleware is the outermost. `yield`
returns the result of the function, or raises its exception. A middleware may raise another one, but cannot turn a
failure into a success. It runs where the function runs, in the same `contextvars` context: a variable that it sets is
seen by the function. Async generators run on an event loop: around a plain function on the worker's, in a child process
on one of its own.

A child process imports a function by its module and name. The method of an object, and a partial, have no name there:
they are pickled with their object or their arguments. A child loads them before the module of the task, so that
unpickling may prepare the process for it (`integrations/django/apps.py`).
"""

import inspect
import pickle
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextvars import Context as Variables
from typing import Any, cast

from duetime.errors import InvalidInput, reason_of
from duetime.worker.context import BaseContext

Around = Generator[None, Any, object] | AsyncGenerator[None, Any]
Middleware = Callable[[BaseContext], Around]
RunOnLoop = Callable[[Coroutine[Any, Any, object], Variables], object]
"""Runs a coroutine on an event loop, with these variables, and waits for it."""
Carried = tuple[str, str, bytes | str | None]
"""A middleware on its way to a child process: its module and its name; and if it has none there, the pickled object, or
as text why it cannot be pickled."""


def check_middleware(middleware: object) -> None:
    if not inspect.isgeneratorfunction(middleware) and not inspect.isasyncgenfunction(middleware):
        raise InvalidInput(
            f"{middleware!r} is not a generator function",
            field="middleware",
            remedy="write def or async def with one `yield`, which stands for the attempt",
        )


def check_carried(middleware: Middleware) -> None:
    """Refuse a middleware that a child process cannot find."""
    _, name, content = carried(middleware)
    if content is None and "<" in name:
        raise InvalidInput(
            f"{name} is defined inside another function, so tasks with process=True cannot import it in their process",
            field="middleware",
            remedy="define it at the top level of its module",
        )
    if isinstance(content, str):
        raise InvalidInput(
            f"{middleware!r} cannot be pickled for the processes of tasks with process=True: {content}",
            field="middleware",
            remedy="use a function at the top level of its module, or let the object define __reduce__",
        )


def carried(middleware: Middleware) -> Carried:
    bound_to = getattr(middleware, "__self__", None)
    # The name of an inherited method of a class leads to the class that defines it: that one is pickled.
    by_name = bound_to is None or (
        inspect.isclass(bound_to) and name_of(middleware).rpartition(".")[0] == bound_to.__qualname__
    )
    if inspect.isroutine(middleware) and by_name:
        return middleware.__module__, name_of(middleware), None
    try:
        return type(middleware).__module__, name_of(middleware), pickle.dumps(middleware)
    except Exception as error:  # whatever the methods of the object raise
        return type(middleware).__module__, name_of(middleware), reason_of(error)


async def call_around(
    middlewares: Sequence[Middleware], context: BaseContext, call: Callable[[], Awaitable[object]]
) -> object:
    """Call an async function inside its middleware."""
    if not middlewares:
        return await call()
    first, *inner = middlewares
    around = first(context)
    if isinstance(around, AsyncGenerator):
        await _asend_first(around, first)
    else:
        _send_first(around, first)
    try:
        value = await call_around(inner, context, call)
    except BaseException as error:
        if isinstance(around, AsyncGenerator):
            await _athrow(around, first, error)
        else:
            _throw(around, first, error)
        raise
    if isinstance(around, AsyncGenerator):
        await _asend_last(around, first, value)
    else:
        _send_last(around, first, value)
    return value


def run_around(
    middlewares: Sequence[Middleware],
    context: Callable[[], BaseContext],
    variables: Variables,
    run_on_loop: RunOnLoop,
    call: Callable[[], object],
) -> object:
    """Call a plain function inside its middleware, with these variables. The thread must not have entered them."""
    if not middlewares:
        value = variables.run(call)
        return run_on_loop(value, variables) if isinstance(value, Coroutine) else value
    first, *inner = middlewares
    around = variables.run(first, context())
    if isinstance(around, AsyncGenerator):
        run_on_loop(_asend_first(around, first), variables)
    else:
        variables.run(_send_first, around, first)
    try:
        value = run_around(inner, context, variables, run_on_loop, call)
    except BaseException as error:
        if isinstance(around, AsyncGenerator):
            run_on_loop(_athrow(around, first, error), variables)
        else:
            variables.run(_throw, around, first, error)
        raise
    if isinstance(around, AsyncGenerator):
        run_on_loop(_asend_last(around, first, value), variables)
    else:
        variables.run(_send_last, around, first, value)
    return value


def _send_first(around: Around, of: Middleware) -> None:
    try:
        cast(Generator[None, Any, object], around).send(None)
    except StopIteration:
        raise _without_yield(of) from None


async def _asend_first(around: AsyncGenerator[None, Any], of: Middleware) -> None:
    try:
        await around.asend(None)
    except StopAsyncIteration:
        raise _without_yield(of) from None


def _send_last(around: Around, of: Middleware, value: object) -> None:
    generator = cast(Generator[None, Any, object], around)
    try:
        generator.send(value)
    except StopIteration:
        return
    generator.close()
    raise _second_yield(of)


async def _asend_last(around: AsyncGenerator[None, Any], of: Middleware, value: object) -> None:
    try:
        await around.asend(value)
    except StopAsyncIteration:
        return
    await around.aclose()
    raise _second_yield(of)


def _throw(around: Around, of: Middleware, error: BaseException) -> None:
    """Returns only if the middleware raises the error again, or swallows it."""
    generator = cast(Generator[None, Any, object], around)
    try:
        generator.throw(error)
    except StopIteration:
        return
    except BaseException as raised:
        if _is_new(raised, error):
            raise
        return
    generator.close()
    raise _second_yield(of)


async def _athrow(around: AsyncGenerator[None, Any], of: Middleware, error: BaseException) -> None:
    try:
        await around.athrow(error)
    except StopAsyncIteration:
        return
    except BaseException as raised:
        if _is_new(raised, error):
            raise
        return
    await around.aclose()
    raise _second_yield(of)


def _is_new(raised: BaseException, error: BaseException) -> bool:
    """A generator cannot pass `StopIteration` on: Python replaces it by a `RuntimeError`."""
    stops = isinstance(error, StopIteration | StopAsyncIteration)
    return raised is not error and not (stops and raised.__cause__ is error)


def _without_yield(of: Middleware) -> RuntimeError:
    return RuntimeError(f"the middleware {name_of(of)} ended without a yield")


def _second_yield(of: Middleware) -> RuntimeError:
    return RuntimeError(f"the middleware {name_of(of)} has more than one yield")


def name_of(of: Middleware) -> str:
    """A partial of a generator function has no name."""
    return str(getattr(of, "__qualname__", of))

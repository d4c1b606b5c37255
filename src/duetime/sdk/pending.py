"""A submission that has not started: `submit` returns it, and it starts when it is awaited.

A forgotten `await` must not lose a job silently. Python only warns about a coroutine that was never awaited; this one
logs an error that says what to write instead.
"""

import asyncio
import inspect
import logging
import sys
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

logger = logging.getLogger(__name__)


def begins_later(function: F) -> F:
    """Marks a function that gives a `Pending` as a coroutine function. Frameworks ask for that before they call one: a
    background task of FastAPI would otherwise run it on a thread, and await nothing."""
    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(function)
    function._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    return function


class Pending(Coroutine[Any, Any, T]):
    """Calls `begin(*args)` when it is awaited. `asyncio.run`, `create_task`, `gather` and `wait_for` accept it."""

    __slots__ = ("_args", "_begin", "_running", "_verb")

    def __init__(self, verb: str, begin: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> None:
        self._verb = verb
        self._begin = begin
        self._args = args
        self._running: Coroutine[Any, Any, T] | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self._started().__await__()

    def send(self, value: Any) -> Any:
        return (self._running or self._started()).send(value)

    def throw(self, *error: Any) -> Any:
        return (self._running or self._started()).throw(*error)

    def close(self) -> None:
        self._started().close()

    def _started(self) -> Coroutine[Any, Any, T]:
        if self._running is None:
            self._running = self._begin(*self._args)
        return self._running

    def __del__(self) -> None:
        if self._running is None:
            name = getattr(getattr(self._args[0], "task", None), "__name__", "app")
            if self._verb == "schedule" and getattr(self._args[0], "args", None):
                name += ".bind(…)"
            logger.error(
                "`%s.%s` was never awaited: nothing was stored; in code that is not async use `%s.sync.%s`",
                name,
                self._verb,
                name,
                self._verb,
            )

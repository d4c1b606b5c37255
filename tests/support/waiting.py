"""Waiting for a condition, with a limit: no test sleeps for a state."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar, overload

T = TypeVar("T")


@overload
async def eventually(condition: Callable[[], Awaitable[T]], *, within: float = 30.0, what: str = "") -> T: ...


@overload
async def eventually(condition: Callable[[], T], *, within: float = 30.0, what: str = "") -> T: ...


async def eventually(condition: Callable[[], object], *, within: float = 30.0, what: str = "") -> object:
    """Look until the condition gives something true, and return that; fail after `within` seconds."""
    deadline = monotonic() + within
    pause = 0.01
    while True:
        found = condition()
        value = await found if inspect.isawaitable(found) else found
        if value:
            return value
        if monotonic() > deadline:
            raise AssertionError(f"did not happen within {within:g} s: {what or condition}; last seen: {value!r}")
        await asyncio.sleep(pause)
        pause = min(0.2, pause * 1.3)

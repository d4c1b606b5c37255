"""Waiting for a condition, with a limit: no test sleeps for a state."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar, overload

T = TypeVar("T")
What = str | Callable[[], str]
"""What is waited for; a function says it when the time is over, with what is known by then."""


@overload
async def eventually(condition: Callable[[], Awaitable[T]], *, within: float = 30.0, what: What = "") -> T: ...


@overload
async def eventually(condition: Callable[[], T], *, within: float = 30.0, what: What = "") -> T: ...


async def eventually(condition: Callable[[], object], *, within: float = 30.0, what: What = "") -> object:
    """Look until the condition gives something true, and return that; fail after `within` seconds."""
    deadline = monotonic() + within
    pause = 0.01
    while True:
        found = condition()
        value = await found if inspect.isawaitable(found) else found
        if value:
            return value
        if monotonic() > deadline:
            said = what() if callable(what) else what
            raise AssertionError(f"did not happen within {within:g} s: {said or condition}; last seen: {value!r}")
        await asyncio.sleep(pause)
        pause = min(0.2, pause * 1.3)

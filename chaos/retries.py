"""Questions of the harness itself, which a fault that has just ended may still hit."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

from duetime.errors import StoreUnavailable, StreamUnavailable

T = TypeVar("T")

_WITHIN = 60.0
_PAUSE = 0.5


async def answered(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until there is an answer. Raises the last error when there is none for a minute."""
    deadline = monotonic() + _WITHIN
    while True:
        try:
            return await ask()
        except (StoreUnavailable, StreamUnavailable):
            if monotonic() > deadline:
                raise
        await asyncio.sleep(_PAUSE)

"""Clashes: two transactions that wait for each other, of which the database ended one.

Everybody locks runs in the order of their ids, so that it should not happen. Where it does, the transaction that was
ended has left nothing behind, so it is simply made again: no caller should hear of it.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import asyncpg

from duetime.errors import StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")

_CLASHES = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_MOST = 5
_PAUSE = 0.01


def retry_on_deadlock(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make the transaction of a store's method again when the database has ended it for the sake of another."""

    @wraps(method)
    async def tried(*args: P.args, **kwargs: P.kwargs) -> T:
        for again in range(_MOST):
            try:
                return await method(*args, **kwargs)
            except StoreUnavailable as error:
                if not isinstance(error.__cause__, _CLASHES):
                    raise
            await asyncio.sleep(random.uniform(0, _PAUSE * 2**again))
        return await method(*args, **kwargs)

    return tried

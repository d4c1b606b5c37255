"""Retrying transactions that the database aborted because of a deadlock or a serialization failure.

All code locks runs in the order of their ids, so deadlocks should not happen. If one does, the aborted transaction has
left nothing behind, so it is repeated, and the caller does not notice. So is a transaction that gave up itself because
it would have had to wait for a job while it held runs, against that order.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import asyncpg

from duetime.errors import StoreUnavailable
from duetime.store.shared.pausing import JobIsHeld

P = ParamSpec("P")
T = TypeVar("T")

_ABORTED = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_MOST = 5
_PAUSE = 0.01


def retry_on_deadlock(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Repeat a store's method when the database has aborted its transaction in favour of another one."""

    @wraps(method)
    async def tried(*args: P.args, **kwargs: P.kwargs) -> T:
        for again in range(_MOST):
            try:
                return await method(*args, **kwargs)
            except StoreUnavailable as error:
                if not isinstance(error, JobIsHeld) and not isinstance(error.__cause__, _ABORTED):
                    raise
            await asyncio.sleep(random.uniform(0, _PAUSE * 2**again))
        return await method(*args, **kwargs)

    return tried

"""A thread for what takes long to compute, so that the event loop goes on answering.

One thread, however many callers: Python runs one at a time anyway, and the event loop waits for at most one switch of
threads (5 ms) whenever it has something to do. What waits for the thread is bounded, for each tenant too.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from duetime.errors import Overloaded

P = ParamSpec("P")
R = TypeVar("R")

MOST = 64
MOST_OF_ONE = 8
"""How many computations of one tenant may be under way or wait."""


class ComputeThread:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "duetime-computing")
        self._asked: Counter[int] = Counter()

    @property
    def busy(self) -> bool:
        """Whether something is computed, or waits for it."""
        return self._asked.total() > 0

    async def run(self, tenant_id: int, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Compute this on the thread. Raises `Overloaded` where too much waits for it already."""
        if self._asked[tenant_id] >= MOST_OF_ONE or self._asked.total() >= MOST:
            raise Overloaded("too many schedules are being computed", remedy="ask again in a moment")
        self._asked[tenant_id] += 1
        try:
            future = self._thread.submit(function, *args, **kwargs)
            return await asyncio.wrap_future(future)
        finally:
            self._asked[tenant_id] -= 1
            if not self._asked[tenant_id]:
                del self._asked[tenant_id]

    def close(self) -> None:
        """Let go of the thread; what waits for it is not computed any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

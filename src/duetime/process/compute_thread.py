"""A thread for long computations, so that the event loop keeps answering.

One thread serves all callers: Python runs one at a time anyway, and the event loop waits for at most one thread switch
(5 ms) whenever it has work. The queue is bounded, also per tenant.
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
"""How many computations of one tenant may run or wait."""


class ComputeThread:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "duetime-computing")
        self._asked: Counter[int] = Counter()

    @property
    def busy(self) -> bool:
        """Whether a computation runs or waits."""
        return self._asked.total() > 0

    async def run(self, tenant_id: int, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run this on the thread. Raises `Overloaded` when too many computations wait already."""
        if self._asked[tenant_id] >= MOST_OF_ONE or self._asked.total() >= MOST:
            raise Overloaded("too many schedules are being computed", remedy="retry in a moment")
        self._asked[tenant_id] += 1
        try:
            future = self._thread.submit(function, *args, **kwargs)
            return await asyncio.wrap_future(future)
        finally:
            self._asked[tenant_id] -= 1
            if not self._asked[tenant_id]:
                del self._asked[tenant_id]

    def close(self) -> None:
        """Release the thread; waiting computations are dropped."""
        self._thread.shutdown(wait=False, cancel_futures=True)

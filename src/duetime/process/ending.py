"""Ends tasks."""

import asyncio
from collections.abc import Iterable
from typing import Any

_AGAIN = 5.0
"""Seconds after which a task that still runs is cancelled once more."""


async def end_tasks(tasks: "Iterable[asyncio.Task[Any] | None]") -> None:
    """Cancel these tasks and wait until they have ended; how they end is not raised.

    One cancellation may not be enough: before Python 3.12, `asyncio.wait_for` loses it if a result arrives at the same
    moment, and libraries call that.
    """
    left = {task for task in tasks if task is not None}
    while left:
        for task in left:
            task.cancel()
        ended, left = await asyncio.wait(left, timeout=_AGAIN)
        for task in ended:
            if not task.cancelled():
                task.exception()

"""A read that outlives a fetch that is cancelled: the broker may have delivered messages already, and a client may end
the connection when a command is cancelled. The next fetch finishes it first."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from duetime.process.ending import end_tasks

T = TypeVar("T")


class Unbroken(Generic[T]):
    def __init__(self) -> None:
        self._task: asyncio.Task[T] | None = None
        self.abandoned = asyncio.Event()
        """Set when the caller was cancelled: the read ends as soon as it can."""

    async def run(self, read: Coroutine[Any, Any, T]) -> T:
        """The result of this read. Call `finish` before."""
        assert self._task is None
        self.abandoned.clear()
        self._task = asyncio.create_task(read)
        return await self._through(self._task)

    async def finish(self) -> T | None:
        """The result of a read whose caller was cancelled; None when there is none."""
        return None if self._task is None else await self._through(self._task)

    async def cancel(self) -> None:
        """End a read whose caller was cancelled; its result is lost."""
        task, self._task = self._task, None
        await end_tasks([task])

    async def _through(self, task: asyncio.Task[T]) -> T:
        try:
            result = await asyncio.shield(task)
        except asyncio.CancelledError:
            self.abandoned.set()
            raise
        except Exception:
            self._task = None
            raise
        self._task = None
        return result

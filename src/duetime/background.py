"""One event loop on a thread of its own, for callers that are not async: any number of threads share it.

It is started when it is first needed. Closing it leaves nobody waiting: who waits for an answer then gets `Closed`. The
next call starts it again.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from duetime.errors import Closed

T = TypeVar("T")


class BackgroundLoop:
    def __init__(self, owner: str, name: str) -> None:
        """`owner` is what callers know it as; `name` is that of the thread."""
        self._owner = owner
        self._name = name
        self._guard = threading.Lock()
        self._running: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None
        self._asked: set[asyncio.Task[Any]] = set()
        """What callers wait for. Only the loop's own thread looks at it."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run this on the loop, and wait for its result."""
        with self._guard:
            # Asked under the guard, it is on the loop before `close` looks for what is there.
            answer = asyncio.run_coroutine_threadsafe(self._do(work), self._started())
        return answer.result()

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let nobody wait any more, do this as the last thing, and end the thread; new callers wait until then."""
        with self._guard:
            if self._running is None:
                return
            (loop, thread), self._running = self._running, None
            try:
                asyncio.run_coroutine_threadsafe(self._end(last), loop).result()
            finally:
                loop.call_soon_threadsafe(loop.stop)
                thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._running is None:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_serve, args=(loop,), name=self._name, daemon=True)
            self._running = loop, thread
            thread.start()
        return self._running[0]

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._asked.add(task)
        try:
            return await work
        except asyncio.CancelledError:
            raise Closed(f"{self._owner} was closed while this waited for it") from None
        finally:
            self._asked.discard(task)

    async def _end(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # Callers first: what else runs here belongs to what is closed now, which knows how to end it.
        await _cancel(self._asked)
        try:
            await last()
        finally:
            await _cancel(asyncio.all_tasks() - {asyncio.current_task()})
            await asyncio.get_running_loop().shutdown_asyncgens()


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    ended = list(tasks)
    for task in ended:
        task.cancel()
    await asyncio.gather(*ended, return_exceptions=True)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()

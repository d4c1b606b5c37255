"""One event loop on its own thread, for callers that are not async: any number of threads share it.

It starts on demand. Closing it leaves no caller waiting: pending calls raise `Closed`. The next call starts it again. A
loop that is still open when the program ends is closed then.
"""

import asyncio
import atexit
import logging
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from duetime.errors import Closed
from duetime.process.ending import end_tasks
from duetime.process.forks import reset_in_children

T = TypeVar("T")

log = logging.getLogger("duetime.sync")

_AT_EXIT = 2.0
"""Seconds that the end of the program waits for a loop that was not closed."""


class BackgroundLoop:
    def __init__(
        self, owner: str, name: str, last: Callable[[], Coroutine[Any, Any, None]], *, instead: str | None = None
    ) -> None:
        """`owner` is the caller's name for it; `name` is the thread's name; `last` runs before it ends. `instead` is
        what async code calls: a call that blocks a running event loop is logged once."""
        self._owner = owner
        self._instead = instead
        self._name = name
        self._last = last
        self._running: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None
        self.begin_anew()
        reset_in_children(self)

    def begin_anew(self) -> object:
        before = self._running
        self._guard = threading.Lock()
        self._running = None
        self._asked: set[asyncio.Task[Any]] = set()
        """Calls in progress. Only the loop's own thread uses it."""
        return before

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run this on the loop, and wait for its result."""
        if self._instead is not None and asyncio._get_running_loop() is not None:
            self._warn(self._instead)
        with self._guard:
            # Scheduled under the lock, the task is on the loop before `close` collects the tasks there.
            answer = asyncio.run_coroutine_threadsafe(self._do(work), self._started())
        return answer.result()

    def _warn(self, instead: str) -> None:
        self._instead = None
        log.warning(
            "a blocking call of %s at %s stops the running event loop of its thread until the answer is there, and for"
            " ever if it waits for a run of that loop: use %s, or asyncio.to_thread",
            self._owner,
            _calling_line(),
            instead,
        )

    def close(self) -> None:
        """Cancel pending calls, run the last coroutine, and end the thread; new callers wait until then."""
        with self._guard:
            self._close(None)

    def _close(self, timeout: float | None) -> None:
        if self._running is None:
            return
        (loop, thread), self._running = self._running, None
        atexit.unregister(self._close_at_exit)
        try:
            asyncio.run_coroutine_threadsafe(self._end(), loop).result(timeout)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout)

    def _close_at_exit(self) -> None:
        # A forked child has a copy of this object but not its thread, so no call would be answered.
        if self._running is None or not self._running[1].is_alive() or not self._guard.acquire(timeout=_AT_EXIT):
            return
        try:
            self._close(_AT_EXIT)
        except Exception:
            pass  # the program ends anyway, and its connections with it
        finally:
            self._guard.release()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._running is None:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_serve, args=(loop,), name=self._name, daemon=True)
            self._running = loop, thread
            thread.start()
            atexit.register(self._close_at_exit)
        return self._running[0]

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._asked.add(task)
        try:
            return await work
        except asyncio.CancelledError:
            raise Closed(f"{self._owner} was closed during the call") from None
        finally:
            self._asked.discard(task)

    async def _end(self) -> None:
        # Callers first: everything else on this loop belongs to `last`, which knows how to end it.
        await end_tasks(self._asked)
        try:
            await self._last()
        finally:
            await end_tasks(asyncio.all_tasks() - {asyncio.current_task()})
            await asyncio.get_running_loop().shutdown_asyncgens()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _calling_line() -> str:
    """The innermost line that is not duetime's own."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "duetime":
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"

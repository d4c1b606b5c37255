"""The embedded file of an app without a server: opened for each call, and closed soon after.

A file belongs to one process at a time. If an app that only submits kept it, `duetime up` could not start, and other
processes could not submit. So the file is open during calls, on any event loop, and for a moment after the last one. It
is closed at once when another process waits for it.

`pin` keeps it open, for callers that use the store itself beyond one call.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path

from duetime.archive.archived_store import with_archive
from duetime.clock import monotonic
from duetime.errors import StoreUnavailable
from duetime.process.forks import reset_in_children
from duetime.settings import Settings
from duetime.store.address import is_wanted, open_ready, store_for
from duetime.store.protocol.store import Store

LOCK_TIMEOUT = 10.0
"""Seconds that a call waits for the file."""
IDLE = 0.2
"""Seconds from the last call until the file is closed. Opening it takes some milliseconds."""
_LOOK_EVERY = 0.01
"""Seconds between two looks for waiting processes: a look costs a quarter of a submission."""
_YIELD = 0.1
"""Seconds that this process leaves the file to waiting processes."""


class EmbeddedFile:
    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._file: Future[Store] | None = None
        self.begin_anew()
        reset_in_children(self)

    def begin_anew(self) -> object:
        before, self._file = self._file, None
        self._guard = threading.Lock()
        self._users = 0
        self._pinned_by: asyncio.AbstractEventLoop | None = None
        self._used_at = 0.0
        self._look_at = 0.0
        self._rest_until = 0.0
        self._timer: threading.Timer | None = None
        return before

    @property
    def is_open(self) -> bool:
        return self._file is not None

    @property
    def pinned(self) -> Store | None:
        """The store that is kept open."""
        file = self._file
        return file.result() if self._pinned_by is not None and file is not None and file.done() else None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Store]:
        """The open store, for one call. Raises `StoreLocked` when a server owns the file, or its owner does not release
        it."""
        await self._rest()
        store = await self._enter()
        try:
            yield store
        finally:
            self._leave()

    async def pin(self) -> Store:
        """The open store, until `close`."""
        loop = asyncio.get_running_loop()
        store = await self._enter()
        with self._guard:
            self._pinned_by = self._pinned_by or loop
        self._leave()
        return store

    async def close(self) -> None:
        """Close the file, unless it is in use, or was pinned on another event loop that still runs."""
        loop = asyncio.get_running_loop()
        with self._guard:
            home, file = self._pinned_by, self._file
            if file is None or (home is None and self._users) or (home not in (None, loop) and not _is_over(home)):
                return
            self._file = self._pinned_by = None
        await (await _result(file)).close()

    async def _rest(self) -> None:
        """Processes that wait for the file come first: a new call waits until they had a chance to get it."""
        now = monotonic()
        if self._file is not None and self._pinned_by is None and now >= self._look_at:
            self._look_at = now + _LOOK_EVERY
            if self._is_wanted():
                self._rest_until = now + _YIELD
        if (left := self._rest_until - now) > 0:
            await asyncio.sleep(left)

    async def _enter(self) -> Store:
        with self._guard:
            first = self._file is None
            if self._file is None:
                self._file = Future()
            file = self._file
            self._users += 1
        try:
            if first:
                await self._open(file)
            return file.result() if file.done() else await _result(file)
        except BaseException:
            self._leave()
            raise

    async def _open(self, file: "Future[Store]") -> None:
        try:
            store = with_archive(store_for(self._settings(), lock_timeout=LOCK_TIMEOUT), self._settings())
            await open_ready(store)
        except BaseException as error:
            with self._guard:
                self._file = None
            # The first caller may have been cancelled; the others were not.
            stopped = not isinstance(error, Exception)
            file.set_exception(
                StoreUnavailable("the opening of the file was cancelled", remedy="try again") if stopped else error
            )
            if not stopped:
                return  # all waiting callers, including this one, get the error from the future
            raise
        file.set_result(store)

    def _leave(self) -> None:
        with self._guard:
            self._users -= 1
            self._used_at = monotonic()
            if not self._users and self._timer is None and self._file is not None and self._pinned_by is None:
                self._look_again(0.0 if self._is_wanted() else IDLE)

    def _look_again(self, after: float) -> None:
        self._timer = threading.Timer(after, self._let_go)
        self._timer.daemon = True
        self._timer.start()

    def _let_go(self) -> None:
        """On its own thread, because the event loop of the last call may be closed."""
        with self._guard:
            self._timer = None
            if self._file is None or self._users or self._pinned_by is not None:
                return  # the last call to finish checks again
            wanted = self._is_wanted()
            left = self._used_at + IDLE - monotonic()
            if left > 0 and not wanted:
                self._look_again(left)
                return
            if wanted:
                self._rest_until = monotonic() + _YIELD
            file, self._file = self._file, None
        # While the interpreter shuts down, threads cannot be joined: the file is released when the process ends.
        with contextlib.suppress(RuntimeError):
            asyncio.run(file.result().close())

    def _is_wanted(self) -> bool:
        path = self._settings().sqlite_file
        return path is not None and is_wanted(Path(path))


def _is_over(loop: asyncio.AbstractEventLoop | None) -> bool:
    return loop is None or loop.is_closed()


async def _result(file: "Future[Store]") -> Store:
    # Other event loops wait for the same future, so it must not be cancelled.
    return await asyncio.shield(asyncio.wrap_future(file))

"""Where an app's jobs live: the open stores, one for each event loop, or one for all where the database is a file.

A store is opened when it is first needed. One that was lent (by the node that runs the app, or by a test) is used in
place of one's own; whoever lent it closes it.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING, Protocol
from uuid import UUID
from weakref import WeakKeyDictionary

from duetime.errors import InvalidInput, StoreLocked, StoreUnavailable
from duetime.model.attempt import Run
from duetime.model.calendar import Calendar
from duetime.model.edit import Changes
from duetime.model.graph import Graph, NewGraph
from duetime.model.job import Job, NewJob, Submitted
from duetime.settings import Settings
from duetime.store.opening import open_ready, store_for
from duetime.store.protocol import Store

if TYPE_CHECKING:
    from duetime.client.remote_jobs import RemoteJobs


class Jobs(Protocol):
    """What an app needs of wherever its jobs live."""

    async def now(self) -> datetime: ...

    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]: ...

    async def job(self, tenant_id: int, job_id: UUID) -> Job: ...

    async def run(self, tenant_id: int, run_id: UUID) -> Run: ...

    async def runs_of_job(self, tenant_id: int, job_id: UUID, limit: int = 100) -> list[Run]: ...

    async def pause_job(self, tenant_id: int, job_id: UUID) -> Job: ...

    async def resume_job(self, tenant_id: int, job_id: UUID) -> Job: ...

    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job: ...

    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run: ...

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes) -> Run: ...

    async def backfill_job(
        self, tenant_id: int, job_id: UUID, fires: Sequence[datetime], nonce: bytes, rate: float
    ) -> int: ...

    async def edit_job(self, tenant_id: int, job_id: UUID, changes: Changes, version: int | None = None) -> Job: ...

    async def set_calendar(self, tenant_id: int, name: str, dates: Sequence[date]) -> Calendar: ...

    async def calendar(self, tenant_id: int, name: str) -> Calendar: ...

    async def calendars(self, tenant_id: int) -> list[Calendar]: ...

    async def delete_calendar(self, tenant_id: int, name: str) -> None: ...

    async def submit_graph(self, tenant_id: int, graph: NewGraph) -> Graph: ...

    async def graph(self, tenant_id: int, graph_id: UUID) -> Graph: ...

    async def cancel_graph(self, tenant_id: int, graph_id: UUID) -> Graph: ...

    async def rerun_graph(self, tenant_id: int, graph_id: UUID, nonce: bytes) -> Graph: ...


def is_store(jobs: Jobs) -> bool:
    """Whether the jobs are in a store of this process, and not behind a server."""
    return hasattr(jobs, "embedded")


class Stores:
    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._guard = threading.Lock()
        self._file: tuple[asyncio.AbstractEventLoop, Future[Store]] | None = None
        self._own: WeakKeyDictionary[asyncio.AbstractEventLoop, Store] = WeakKeyDictionary()
        self._opening: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._remote: WeakKeyDictionary[asyncio.AbstractEventLoop, RemoteJobs] = WeakKeyDictionary()
        self._lent: list[tuple[asyncio.AbstractEventLoop | None, Store]] = []

    async def get(self) -> Store:
        """The open store of this event loop."""
        loop = asyncio.get_running_loop()
        found = self._borrowed(loop) or self._own.get(loop)
        if found is not None:
            return found
        settings = self._settings()
        if settings.sqlite_file is not None:
            return await self._get_file(settings)
        async with self._opening.setdefault(loop, asyncio.Lock()):
            if loop not in self._own:
                self._own[loop] = await _open(settings)
        return self._own[loop]

    async def jobs(self) -> Jobs:
        """The open store of this event loop; or the server that is named, or that owns the file."""
        loop = asyncio.get_running_loop()
        found = self._borrowed(loop) or self._own.get(loop) or self._remote.get(loop)
        if found is not None:
            return found
        settings = self._settings()
        locked: StoreLocked | None = None
        if settings.url is None:
            try:
                return await self.get()
            except StoreLocked as error:
                locked = error
        # Imported here: who works on a database needs no HTTP.
        from duetime.client.finding import find_server, is_served
        from duetime.client.remote_jobs import RemoteJobs

        if locked is not None and not is_served(settings):
            raise locked
        self._remote[loop] = RemoteJobs(*find_server(settings))
        return self._remote[loop]

    @contextmanager
    def lent(self, store: Store) -> Iterator[None]:
        """Use this open store inside the block: everywhere if it is embedded, else on this event loop."""
        entry = (None if store.embedded else asyncio.get_running_loop(), store)
        self._lent.append(entry)
        try:
            yield
        finally:
            self._lent.remove(entry)

    def for_guests(self) -> Store:
        """A store that only works on the caller's connection, so it is never opened."""
        if any(store.embedded for _, store in self._lent) or self._settings().sqlite_file is not None:
            raise InvalidInput(
                "submitting inside a transaction needs PostgreSQL, and this app uses SQLite",
                field="connection",
                remedy="set DUETIME_DATABASE_URL",
            )
        return store_for(self._settings())

    async def close(self) -> None:
        """Close what this event loop has opened; what another one has opened, or what was lent, stays."""
        loop = asyncio.get_running_loop()
        own = self._own.pop(loop, None)
        if own is not None:
            await own.close()
        remote = self._remote.pop(loop, None)
        if remote is not None:
            await remote.close()
        with self._guard:
            home, file = self._file or (None, None)
            if home is None or file is None or (home is not loop and not home.is_closed()):
                return
            self._file = None
        await (await _result(file)).close()

    def _borrowed(self, loop: asyncio.AbstractEventLoop) -> Store | None:
        return next((store for home, store in reversed(self._lent) if home in (None, loop)), None)

    async def _get_file(self, settings: Settings) -> Store:
        """A file belongs to one store: whoever comes first opens it, on whichever event loop, and the others wait."""
        with self._guard:
            first = self._file is None
            if self._file is None:
                self._file = asyncio.get_running_loop(), Future()
            file = self._file[1]
        if not first:
            return await _result(file)
        try:
            store = await _open(settings)
        except BaseException as error:
            with self._guard:
                self._file = None
            # Whoever was first may have been told to stop; the others were not.
            stopped = not isinstance(error, Exception)
            file.set_exception(StoreUnavailable("nobody opened it after all", remedy="ask again") if stopped else error)
            raise
        file.set_result(store)
        return store


async def _open(settings: Settings) -> Store:
    store = store_for(settings)
    await open_ready(store)
    return store


async def _result(file: "Future[Store]") -> Store:
    # What another event loop waits for is not ours to cancel.
    return await asyncio.shield(asyncio.wrap_future(file))

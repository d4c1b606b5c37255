"""Where an app's jobs live: the open stores, one for each event loop, or one for all where the database is a file.

A store is opened when it is first needed. One that was lent (by the node that runs the app, or by a test) is used in
place of one's own; the lender closes it. An embedded file is opened for each call and let go soon after, or a server
that has it is asked: processes that share it may start and end in any order.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast
from uuid import UUID
from weakref import WeakKeyDictionary

from duetime.clock import monotonic
from duetime.engine.quota import Quota
from duetime.engine.quota_store import QuotaStore
from duetime.errors import InvalidInput, StoreLocked
from duetime.model.attempt import Run
from duetime.model.calendar import Calendar
from duetime.model.edit import Changes
from duetime.model.graph import Graph, NewGraph
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import Job, NewJob, Submitted
from duetime.process.forks import reset_in_children
from duetime.sdk.embedded_file import PATIENCE, EmbeddedFile
from duetime.settings import Settings
from duetime.store.address import is_kept_by_server, open_ready, store_for
from duetime.store.protocol.store import Store

if TYPE_CHECKING:
    from duetime.client.remote_jobs import RemoteJobs


_LOOK_EVERY = 0.05


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

    async def trigger_job(
        self, tenant_id: int, job_id: UUID, nonce: bytes, request: KeyedRequest | None = None
    ) -> Run: ...

    async def backfill_job(
        self,
        tenant_id: int,
        job_id: UUID,
        fires: Sequence[datetime],
        nonce: bytes,
        rate: float,
        request: KeyedRequest | None = None,
    ) -> int: ...

    async def retry_run(
        self, tenant_id: int, run_id: UUID, nonce: bytes, request: KeyedRequest | None = None
    ) -> Run: ...

    async def edit_job(self, tenant_id: int, job_id: UUID, changes: Changes, version: int | None = None) -> Job: ...

    async def set_calendar(self, tenant_id: int, name: str, dates: Sequence[date]) -> Calendar: ...

    async def calendar(self, tenant_id: int, name: str) -> Calendar: ...

    async def calendars(self, tenant_id: int) -> list[Calendar]: ...

    async def delete_calendar(self, tenant_id: int, name: str) -> None: ...

    async def submit_graph(self, tenant_id: int, graph: NewGraph) -> Graph: ...

    async def graph(self, tenant_id: int, graph_id: UUID) -> Graph: ...

    async def cancel_graph(self, tenant_id: int, graph_id: UUID) -> Graph: ...

    async def rerun_graph(self, tenant_id: int, graph_id: UUID, nonce: bytes) -> Graph: ...


class _InTurn:
    """The jobs of an embedded file: where they are is decided for each call."""

    def __init__(self, call: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        return partial(self._call, name)


class _Connected(NamedTuple):
    """A server that an event loop has asked."""

    url: str
    jobs: "RemoteJobs"
    closing: AsyncGenerator[None, None]
    """Closing it closes the connections."""


class Stores:
    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._file = EmbeddedFile(settings)
        self._in_turn = cast(Jobs, _InTurn(self._call_in_turn))
        self._forget()
        reset_in_children(self)

    def begin_anew(self) -> object:
        before = (self._lent, dict(self._own), dict(self._remote))
        self._forget()
        return before

    def _forget(self) -> None:
        self._quotas: WeakKeyDictionary[asyncio.AbstractEventLoop, Quota] = WeakKeyDictionary()
        self._lent: list[tuple[asyncio.AbstractEventLoop | None, Store]] = []
        self._own: WeakKeyDictionary[asyncio.AbstractEventLoop, Store] = WeakKeyDictionary()
        self._opening: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._remote: WeakKeyDictionary[asyncio.AbstractEventLoop, _Connected] = WeakKeyDictionary()

    async def get(self) -> Store:
        """The open store of this event loop; it stays open until `close`."""
        loop = asyncio.get_running_loop()
        found = self._borrowed(loop) or self._own.get(loop)
        if found is not None:
            return found
        settings = self._settings()
        if settings.sqlite_file is not None:
            return await self._file.pin()
        async with self._opening.setdefault(loop, asyncio.Lock()):
            if loop not in self._own:
                self._own[loop] = await _open(settings)
        return self._own[loop]

    async def jobs(self) -> Jobs:
        """The open store of this event loop; or the server that is named, or that owns the file."""
        found = self._borrowed(asyncio.get_running_loop()) or self._file.pinned
        if found is not None:
            return self._bounded(found)
        settings = self._settings()
        if settings.url is not None:
            return await self._server(settings)
        return self._bounded(await self.get()) if settings.sqlite_file is None else self._in_turn

    async def are_here(self) -> bool:
        """Whether the jobs are in a store of this process, and not behind a server."""
        if self._borrowed(asyncio.get_running_loop()) is not None:
            return True
        settings = self._settings()
        return settings.url is None and not self._is_served(settings)

    async def _call_in_turn(self, name: str, *args: Any, **options: Any) -> Any:
        """Ask the server that has the file, or have the file for one call; waits its turn."""
        until = monotonic() + PATIENCE
        while True:
            jobs = await self._reached()
            if jobs is not None:
                return await getattr(jobs, name)(*args, **options)
            try:
                async with self._file.turn() as store:
                    return await getattr(self._bounded(store), name)(*args, **options)
            except StoreLocked:
                # A server has it, which says where it is once it is up.
                if monotonic() > until:
                    raise
            await asyncio.sleep(_LOOK_EVERY)

    async def _reached(self) -> Jobs | None:
        """What has the jobs without taking the file: a store that was lent, or a server."""
        found = self._borrowed(asyncio.get_running_loop())
        if found is not None:
            return self._bounded(found)
        settings = self._settings()
        return await self._server(settings) if self._is_served(settings) else None

    def _is_served(self, settings: Settings) -> bool:
        """Whether a live server has the embedded file, and says where it is."""
        file = settings.sqlite_file
        if file is None or self._file.is_open or not is_kept_by_server(file):
            return False
        # Imported here: who works on a database needs no HTTP.
        from duetime.client.server_address import is_served

        return is_served(settings)

    async def _server(self, settings: Settings) -> "RemoteJobs":
        from duetime.client.remote_jobs import RemoteJobs
        from duetime.client.server_address import find_server
        from duetime.crypto.tls import ClientTls

        loop = asyncio.get_running_loop()
        url, key = find_server(settings)
        known = self._remote.get(loop)
        if known is not None and known.url == url:
            return known.jobs
        jobs = RemoteJobs(url, key, ClientTls.of(settings))
        self._remote[loop] = connected = _Connected(url, jobs, _closed_with_loop(jobs))
        await anext(connected.closing)
        if known is not None:
            await known.closing.aclose()  # of a server that is gone
        return jobs

    @contextmanager
    def lent(self, store: Store) -> Iterator[None]:
        """Use this open store inside the block: everywhere if it is embedded, else on this event loop."""
        entry = (None if store.embedded else asyncio.get_running_loop(), store)
        self._lent.append(entry)
        try:
            yield
        finally:
            if entry in self._lent:  # not in a child that was forked inside the block
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
        connected = self._remote.pop(loop, None)
        if connected is not None:
            await connected.closing.aclose()
        await self._file.close()

    def _bounded(self, store: Store) -> Jobs:
        """What an app submits is held to the quotas of its tenant, as what a server takes in."""
        quota = self._quotas.setdefault(asyncio.get_running_loop(), Quota())
        return QuotaStore(store, quota).as_store

    def _borrowed(self, loop: asyncio.AbstractEventLoop) -> Store | None:
        return next((store for home, store in reversed(self._lent) if home in (None, loop)), None)


async def _open(settings: Settings) -> Store:
    store = store_for(settings)
    await open_ready(store)
    return store


async def _closed_with_loop(jobs: "RemoteJobs") -> AsyncGenerator[None, None]:
    """For programs that never close their app: the end of an event loop closes the async generators that it has run."""
    try:
        yield
    finally:
        await jobs.close()

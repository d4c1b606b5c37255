"""The open stores of an app: one per event loop, or one for all if the database is a file.

A store is opened on first use. A borrowed store, from the node that runs the app or by a test, takes precedence; its
owner closes it. An embedded file is opened for each call and closed soon after; if a server owns it, the call goes to
the server. So processes that share a file can start and end in any order.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from duetime.archive.archived_store import with_archive
from duetime.clock import monotonic
from duetime.engine.quota import REMEMBERED, Quota
from duetime.engine.quota_store import with_quotas
from duetime.engine.stream_store import with_streams
from duetime.engine.streaming import Streaming
from duetime.errors import InvalidInput, StoreLocked
from duetime.model.job import DEFAULT_TENANT, Submitted
from duetime.process.forks import reset_in_children
from duetime.sdk.embedded_file import LOCK_TIMEOUT, EmbeddedFile
from duetime.sdk.jobs import Jobs
from duetime.sdk.order import Order
from duetime.sdk.store_jobs import StoreJobs, check_without_day
from duetime.settings import Settings
from duetime.settings.kinds import without_password
from duetime.spec.resolved import Resolved, base_of
from duetime.store.address import is_kept_by_server, open_ready, store_for
from duetime.store.protocol.store import Store
from duetime.worker.import_guard import refuse_at_import

if TYPE_CHECKING:
    from duetime.sdk.remote_jobs import RemoteJobs

T = TypeVar("T")
_LOOK_EVERY = 0.05
_USE = "submits or reads jobs"


class _Connected(NamedTuple):
    """An event loop's connection to a server."""

    url: str
    jobs: "RemoteJobs"


class Stores:
    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._file = EmbeddedFile(settings)
        self._forget()
        reset_in_children(self)

    def begin_anew(self) -> object:
        before = (self._borrowed_stores, dict(self._own), dict(self._remote))
        self._forget()
        return before

    def _forget(self) -> None:
        self._streamings: WeakKeyDictionary[asyncio.AbstractEventLoop, Streaming] = WeakKeyDictionary()
        self._quotas: WeakKeyDictionary[asyncio.AbstractEventLoop, Quota] = WeakKeyDictionary()
        self._within: tuple[float, Resolved] | None = None
        self._here: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Store, StoreJobs]] = WeakKeyDictionary()
        self._borrowed_stores: list[tuple[asyncio.AbstractEventLoop | None, Store]] = []
        self._own: WeakKeyDictionary[asyncio.AbstractEventLoop, Store] = WeakKeyDictionary()
        self._opening: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._remote: WeakKeyDictionary[asyncio.AbstractEventLoop, _Connected] = WeakKeyDictionary()

    async def get(self) -> Store:
        """The open store of this event loop; it stays open until `close`."""
        refuse_at_import(_USE)
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

    async def ask(self, work: Callable[[Jobs], Awaitable[T]]) -> T:
        """Run this against the open store of this event loop, or against the configured server."""
        refuse_at_import(_USE)
        loop = asyncio.get_running_loop()
        found = self._borrowed(loop) or self._file.pinned
        if found is not None:
            return await work(self._jobs_in(found))
        settings = self._settings()
        if settings.url is not None:
            return await work(await self._server(settings))
        own = self._own.get(loop)
        if own is None and settings.sqlite_file is not None:
            return await self._ask_in_turn(work)
        return await work(self._jobs_in(own or await self.get()))

    async def reach(self) -> None:
        """Connect to the database. An embedded file is opened for each call instead."""
        settings = self._settings()
        if self._borrowed(asyncio.get_running_loop()) is None and settings.url is None and settings.sqlite_file is None:
            await self.get()

    async def _ask_in_turn(self, work: Callable[[Jobs], Awaitable[T]]) -> T:
        """Use the server that owns the embedded file, or open the file for one call; waits for it."""
        until = monotonic() + LOCK_TIMEOUT
        while True:
            found = self._borrowed(asyncio.get_running_loop())
            if found is not None:
                return await work(self._jobs_in(found))
            settings = self._settings()
            if self._is_served(settings):
                return await work(await self._server(settings))
            try:
                async with self._file.turn() as store:
                    return await work(self._jobs_in(store))
            except StoreLocked:
                # A starting server owns it, and publishes its address soon.
                if monotonic() > until:
                    raise
            await asyncio.sleep(_LOOK_EVERY)

    def _is_served(self, settings: Settings) -> bool:
        """Whether a live server owns the embedded file, and has published its address."""
        file = settings.sqlite_file
        if file is None or self._file.is_open or not is_kept_by_server(file):
            return False
        # Imported here, because apps with a database need no HTTP.
        from duetime.client.server_address import is_served

        return is_served(settings)

    async def _server(self, settings: Settings) -> "RemoteJobs":
        from duetime.client.server_address import find_server
        from duetime.crypto.tls import ClientTls
        from duetime.sdk.remote_jobs import RemoteJobs

        loop = asyncio.get_running_loop()
        url, key = find_server(settings)
        known = self._remote.get(loop)
        if known is not None and known.url == url:
            return known.jobs
        jobs = RemoteJobs(url, key, ClientTls.of(settings))
        self._remote[loop] = _Connected(url, jobs)
        if known is not None:
            await known.jobs.close()  # the connections to a former server
        return jobs

    @contextmanager
    def using_store(self, store: Store) -> Iterator[None]:
        """Use this open store inside the block: everywhere if it is embedded, else on this event loop."""
        entry = (None if store.embedded else asyncio.get_running_loop(), store)
        self._borrowed_stores.append(entry)
        try:
            yield
        finally:
            if entry in self._borrowed_stores:  # not in a child that was forked inside the block
                self._borrowed_stores.remove(entry)

    async def submit_within(self, connection: object, order: Order) -> Submitted:
        """Store a job in the caller's transaction. The defaults of the tenant are read there too, now and then."""
        refuse_at_import(_USE)
        jobs = self._for_caller_transaction()
        check_without_day(order)  # before the connection is used
        known = self._within
        if known is None or monotonic() - known[0] >= REMEMBERED:
            defaults = await jobs.store.caller_transactions.defaults_within(connection, DEFAULT_TENANT)
            known = self._within = monotonic(), base_of(defaults)
        return await jobs.submit_within(connection, order, known[1])

    def _for_caller_transaction(self) -> StoreJobs:
        """Jobs on the caller's connection. It opens no other connection."""
        settings = self._settings()
        embedded = [store for _, store in self._borrowed_stores if store.embedded]
        if settings.url is not None and settings.database_url is None and not embedded:
            raise InvalidInput(
                f"this app uses the server {without_password(settings.url)}, not a database",
                field="connection",
                remedy="set DUETIME_DATABASE_URL instead of DUETIME_URL, or omit connection=",
            )
        return StoreJobs(embedded[-1] if embedded else store_for(settings), settings, Quota())

    async def close(self) -> None:
        """Close what this event loop has opened. Connections of other loops, and borrowed stores, stay open."""
        loop = asyncio.get_running_loop()
        streaming = self._streamings.get(loop)
        if streaming is not None:
            await streaming.close()
        own = self._own.pop(loop, None)
        if own is not None:
            await own.close()
        connected = self._remote.pop(loop, None)
        if connected is not None:
            await connected.jobs.close()
        await self._file.close()

    def _jobs_in(self, store: Store) -> StoreJobs:
        """The tenant's quotas apply to an app's submissions, and its stream queues take them, as on a server."""
        loop, settings = asyncio.get_running_loop(), self._settings()
        known = self._here.get(loop)
        if known is None or known[0] is not store or known[1].settings is not settings:
            quota = self._quotas.setdefault(loop, Quota())
            streaming = self._streamings.setdefault(loop, Streaming())
            asked = with_streams(with_quotas(store, quota), streaming)
            known = self._here[loop] = store, StoreJobs(asked, settings, quota)
        return known[1]

    def _borrowed(self, loop: asyncio.AbstractEventLoop) -> Store | None:
        for home, store in reversed(self._borrowed_stores):
            if home is None or home is loop:
                return store
        return None


async def _open(settings: Settings) -> Store:
    store = with_archive(store_for(settings), settings)
    await open_ready(store)
    return store

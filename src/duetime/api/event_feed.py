"""The event feed: a server reads the store's events once and distributes them to all listeners.

A listener gets every event of its tenant after its start position, in order and without gaps: an event gets its
position when it is committed, and waits for no other transaction. A listener that does not keep up is disconnected. It
comes back with its last position and continues there. Listeners also get positions while their tenant has no events, so
that none comes back with a very old position, after which the events of all tenants would have to be read.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from duetime.clock import monotonic
from duetime.errors import DuetimeError, reason_of
from duetime.model.event import Event, EventMark
from duetime.process.ending import end_tasks
from duetime.store.protocol.store import Hint, Store

log = logging.getLogger("duetime.api")

LISTENING = timedelta(minutes=2)
"""How long the store writes events after the last listener or this server has gone."""
_RENEW = 30.0
_POLL = 0.25
_PAGE = 1000
_BEHIND = 2000
"""Events that may be buffered for one listener."""


class Listener:
    """A listener: the tenant, the start position, and the events after it."""

    begin: EventMark
    events: AsyncIterator[Event]
    """Ends when the listener cannot keep up."""

    def __init__(self, hub: "EventHub", tenant_id: int) -> None:
        self.tenant_id = tenant_id
        self.waiting: asyncio.Queue[Event] = asyncio.Queue(_BEHIND)
        self.lost = False
        self._hub = hub
        self._caught_up = False

    def start(self, after: EventMark | None, here: EventMark) -> None:
        self.begin = here if after is None else min(after, here)
        self.events = self._heard(here)

    async def _heard(self, here: EventMark) -> AsyncIterator[Event]:
        if self.begin < here:
            async for event in self._hub.between(self.begin, here):
                if event.tenant_id == self.tenant_id:
                    yield event
        self._caught_up = True
        while not (self.lost and self.waiting.empty()):
            event = await self.waiting.get()
            if event.mark > here:
                yield event

    @property
    def place(self) -> EventMark | None:
        """The position up to which `events` has yielded everything; None while it is not known."""
        return self._hub.read_until if self._caught_up and not self.lost and self.waiting.empty() else None


class EventHub:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: set[Listener] = set()
        self._mark: EventMark | None = None
        self._tail: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._awake = asyncio.Event()

    @asynccontextmanager
    async def listening(self, tenant_id: int, after: EventMark | None = None) -> AsyncIterator[Listener]:
        """Listen to a tenant inside the block, from now on or after an earlier position."""
        listener = Listener(self, tenant_id)
        self._listeners.add(listener)
        try:
            listener.start(after, await self._started())
            yield listener
        finally:
            self._listeners.discard(listener)

    @property
    def read_until(self) -> EventMark | None:
        """The position up to which all listeners have got everything."""
        return self._mark

    @property
    def is_listening(self) -> bool:
        """Whether this server reads events now."""
        return self._tail is not None and not self._tail.done()

    async def close(self) -> None:
        await end_tasks([self._tail])
        self._tail = None

    async def _started(self) -> EventMark:
        """Start the reader if it is not running. Returns the position up to which everything was read."""
        async with self._starting:
            if self._tail is None or self._tail.done():
                self._mark = await self._store.events.keep_listening(LISTENING)
                self._tail = asyncio.create_task(self._read(), name="duetime events")
            assert self._mark is not None
            return self._mark

    async def between(self, after: EventMark, until: EventMark) -> AsyncIterator[Event]:
        """The events of all tenants between two positions."""
        while True:
            page = await self._store.events.events(after, _PAGE)
            for event in page:
                if event.mark > until:
                    return
                yield event
            if len(page) < _PAGE:
                return
            after = page[-1].mark

    async def _read(self) -> None:
        stop = self._store.listen(self._hint)
        renewed = monotonic()
        try:
            while self._listeners:
                self._awake.clear()
                try:
                    if monotonic() - renewed > _RENEW:
                        await self._store.events.keep_listening(LISTENING)
                        renewed = monotonic()
                    full = await self._step()
                except DuetimeError as error:
                    log.warning("the event feed cannot read events: %s; retrying", reason_of(error))
                    full = False
                if not full:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_POLL):
                            await self._awake.wait()
        finally:
            stop()

    async def _step(self) -> bool:
        assert self._mark is not None
        page = await self._store.events.events(self._mark, _PAGE)
        for event in page:
            self._mark = event.mark
            for listener in self._listeners:
                if listener.tenant_id == event.tenant_id:
                    _hand(listener, event)
        return len(page) == _PAGE

    def _hint(self, _: Hint) -> None:
        self._awake.set()


def _hand(listener: Listener, event: Event) -> None:
    if listener.lost:
        return
    try:
        listener.waiting.put_nowait(event)
    except asyncio.QueueFull:
        listener.lost = True

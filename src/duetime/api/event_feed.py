"""What changes, as it changes: the store's events are read once on this server, and handed to everybody who listens.

A listener gets every event of its tenant after the place where it begins, in order and without gaps: an event has its
place when it is committed, and waits for no other transaction. A listener that does not keep up is let go: it comes
back with the last place that it was told, and goes on from there. It is told of places also while nothing happens to
its tenant, so that it never comes back with one that is long past: all that others did since would have to be read.
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
from duetime.store.protocol.store import Hint, Store

log = logging.getLogger("duetime.api")

LISTENING = timedelta(minutes=2)
"""How long events are written after the last listener has gone, or this server."""
_RENEW = 30.0
_POLL = 0.25
_PAGE = 1000
_BEHIND = 2000
"""Events that may wait for one listener."""


class Listener:
    """One who listens to a tenant: the place where that begins, and what happens after it."""

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
        """Up to where everything is known to have come out of `events`; None while that cannot be said."""
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
        """Listen to a tenant inside the block, from now on or after a place that was told before."""
        listener = Listener(self, tenant_id)
        self._listeners.add(listener)
        try:
            listener.start(after, await self._started())
            yield listener
        finally:
            self._listeners.discard(listener)

    @property
    def read_until(self) -> EventMark | None:
        """The place up to which all listeners were handed everything."""
        return self._mark

    @property
    def is_listening(self) -> bool:
        """Whether this server reads events now."""
        return self._tail is not None and not self._tail.done()

    async def close(self) -> None:
        if self._tail is not None:
            self._tail.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._tail
            self._tail = None

    async def _started(self) -> EventMark:
        """Begin to read, if nobody does yet; returns the place up to which everything was read."""
        async with self._starting:
            if self._tail is None or self._tail.done():
                self._mark = await self._store.keep_listening(LISTENING)
                self._tail = asyncio.create_task(self._read(), name="duetime events")
            assert self._mark is not None
            return self._mark

    async def between(self, after: EventMark, until: EventMark) -> AsyncIterator[Event]:
        """What happened to all tenants after one place, up to another."""
        while True:
            page = await self._store.events(after, _PAGE)
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
                        await self._store.keep_listening(LISTENING)
                        renewed = monotonic()
                    full = await self._step()
                except DuetimeError as error:
                    log.warning("events: %s; trying again until it is back", reason_of(error))
                    full = False
                if not full:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_POLL):
                            await self._awake.wait()
        finally:
            stop()

    async def _step(self) -> bool:
        assert self._mark is not None
        page = await self._store.events(self._mark, _PAGE)
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

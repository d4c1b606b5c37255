"""What changes, as it changes: the store's events are read once on this server, and handed to everybody who listens.

A listener gets every event of its tenant after the place where it begins, in order and without gaps. One that does not
keep up is let go: it comes back with the last id that it has seen, and goes on from there.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import timedelta

from duetime.clock import monotonic
from duetime.errors import DuetimeError
from duetime.model.event import Event, EventMark
from duetime.store.protocol import Hint, Store

log = logging.getLogger("duetime.api")

LISTENING = timedelta(minutes=2)
"""How long events are written after the last listener has gone, or this server."""
_RENEW = 30.0
_POLL = 0.25
_PAGE = 1000
_BEHIND = 2000
"""Events that may wait for one listener."""


class _Listener:
    __slots__ = ("events", "lost", "tenant_id")

    def __init__(self, tenant_id: int) -> None:
        self.tenant_id = tenant_id
        self.events: asyncio.Queue[Event] = asyncio.Queue(_BEHIND)
        self.lost = False


class EventHub:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: set[_Listener] = set()
        self._mark: EventMark | None = None
        self._tail: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._awake = asyncio.Event()

    async def listen(self, tenant_id: int, after: EventMark | None = None) -> AsyncIterator[Event]:
        """The events of a tenant from now on, or after a place that was seen before. Ends when it cannot keep up."""
        listener = _Listener(tenant_id)
        self._listeners.add(listener)
        try:
            here = await self._started()
            seen = here
            if after is not None and after < here:
                async for event in self._between(after, here):
                    if event.tenant_id == tenant_id:
                        yield event
            while not (listener.lost and listener.events.empty()):
                event = await listener.events.get()
                if event.mark > seen:
                    yield event
        finally:
            self._listeners.discard(listener)

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

    async def _between(self, after: EventMark, until: EventMark) -> AsyncIterator[Event]:
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
                    log.warning("events: %s; trying again until it is back", error)
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


def _hand(listener: _Listener, event: Event) -> None:
    if listener.lost:
        return
    try:
        listener.events.put_nowait(event)
    except asyncio.QueueFull:
        listener.lost = True

"""The event feed: a server reads the store's events once and distributes them to all listeners.

A listener gets every event of its tenant after its start position, in order and without gaps: an event gets its
position when it is committed, and waits for no other transaction. A listener that does not keep up is disconnected. It
comes back with its last position and continues there. Listeners also get positions while their tenant has no events, so
that none comes back with a very old position, after which the events of all tenants would have to be read.

A listener with a scope gets the part of each event that is in its scope. What decides about that is read once for a
page of events and a tenant, so the cost does not grow with the number of listeners.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta

from duetime.clock import monotonic
from duetime.errors import DuetimeError, reason_of
from duetime.model.event import Event, EventMark
from duetime.model.scope import Scope
from duetime.process.ending import end_tasks
from duetime.store.protocol.store import Hint, Store
from duetime.store.wrappers.scoped import EventFacts

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

    def __init__(self, hub: "EventHub", tenant_id: int, scope: Scope | None) -> None:
        self.tenant_id = tenant_id
        self.scope = scope
        self.waiting: asyncio.Queue[Event] = asyncio.Queue(_BEHIND)
        self.lost = False
        self._hub = hub
        self._caught_up = False

    def start(self, after: EventMark | None, here: EventMark) -> None:
        self.begin = here if after is None else min(after, here)
        self.events = self._heard(here)

    async def _heard(self, here: EventMark) -> AsyncIterator[Event]:
        if self.begin < here:
            async for page in self._hub.between(self.begin, here):
                own = [event for event in page if event.tenant_id == self.tenant_id]
                facts = await self._hub.facts(self.tenant_id, own) if own and self.scope is not None else None
                for event in own:
                    if (seen := self.seen(event, facts)) is not None:
                        yield seen
        self._caught_up = True
        while not (self.lost and self.waiting.empty()):
            event = await self.waiting.get()
            if event.mark > here:
                yield event

    def seen(self, event: Event, facts: EventFacts | None) -> Event | None:
        """The part of an event of the tenant that the listener may see."""
        if self.scope is None:
            return event
        assert facts is not None
        return facts.within(self.scope, event)

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
    async def listening(
        self, tenant_id: int, after: EventMark | None = None, scope: Scope | None = None
    ) -> AsyncIterator[Listener]:
        """Listen to a tenant, or to what is in a scope, inside the block, from now on or after an earlier position."""
        listener = Listener(self, tenant_id, scope)
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

    async def between(self, after: EventMark, until: EventMark) -> AsyncIterator[list[Event]]:
        """The events of all tenants between two positions, in pages."""
        while True:
            page = await self._store.events.events(after, _PAGE)
            yield [event for event in page if event.mark <= until]
            if len(page) < _PAGE or page[-1].mark > until:
                return
            after = page[-1].mark

    async def facts(self, tenant_id: int, events: Iterable[Event]) -> EventFacts:
        return await EventFacts.of(self._store.lists, tenant_id, events)

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
        facts: dict[int, EventFacts] = {}
        # Until nothing is missing: a listener may come while they are read.
        while missing := self._with_scopes({event.tenant_id for event in page}) - facts.keys():
            for tenant_id in missing:
                facts[tenant_id] = await self.facts(tenant_id, [each for each in page if each.tenant_id == tenant_id])
        for event in page:
            self._mark = event.mark
            for listener in self._listeners:
                if listener.tenant_id == event.tenant_id:
                    _hand(listener, event, facts.get(event.tenant_id))
        return len(page) == _PAGE

    def _with_scopes(self, tenants: set[int]) -> set[int]:
        """Those of the tenants that have listeners with a scope."""
        return tenants & {listener.tenant_id for listener in self._listeners if listener.scope is not None}

    def _hint(self, _: Hint) -> None:
        self._awake.set()


def _hand(listener: Listener, event: Event, facts: EventFacts | None) -> None:
    if listener.lost:
        return
    try:
        if (seen := listener.seen(event, facts)) is not None:
            listener.waiting.put_nowait(seen)
    except asyncio.QueueFull:
        listener.lost = True

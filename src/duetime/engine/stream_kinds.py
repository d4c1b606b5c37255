"""The kinds of queues: which go through a stream. A process reads them about once a second while it submits.

A reading may be used for a minute while the store does not answer: a run can be accepted by its stream alone. After
that submissions are refused, because a change of kind has a bounded time to reach all processes.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from duetime.clock import elapsed
from duetime.errors import StoreUnavailable
from duetime.model.carried import StreamQueue
from duetime.model.nonce import WINDOW
from duetime.process.loop import retrieve_error
from duetime.store.protocol.streams import Streams

READ_EVERY = 1.0
RECENT = 2.0
"""Seconds after which a reading is too old for a submission that may be a repeated one."""
USABLE = 60.0
TRUSTED = 2 * USABLE
"""Seconds after a reading in which what is published by it is surely consumed. A process may stand still between its
reading and its publish; workers consume an earlier generation for longer than this (`STILL_PUBLISHED`)."""
SETTLED = 15.0
"""Seconds after a change of kind in which other processes may still store requests by the earlier kind: `RECENT`, and
the time that a transaction takes."""
REPEATABLE = 2 * WINDOW
"""Seconds for which a request from before a change of kind can be repeated under its nonce."""


class Kind(NamedTuple):
    """A queue that goes through a stream now, or did so lately."""

    current: StreamQueue | None
    """None: it goes through the store again."""
    generations: tuple[StreamQueue, ...]
    """All generations of its stream that may hold messages."""
    changed_at: float
    """When its kind changed last, by `elapsed`."""

    @property
    def age(self) -> float:
        return elapsed() - self.changed_at


class StreamKinds:
    def __init__(self) -> None:
        self.tenants: Mapping[int, Mapping[str, Kind]] = {}
        """The kinds of the queues of each tenant that has stream queues."""
        self._read_at: float | None = None
        self._reading: asyncio.Task[None] | None = None
        self._changed_at = float("-inf")

    async def renew(self, streams: Streams, *, wait: bool = True) -> None:
        """Read the kinds, if that was more than a second ago. Without `wait` it happens in the background, as long as
        the last reading can be used. Raises `StoreUnavailable` when it can not."""
        age = self.age
        if age <= READ_EVERY:
            return
        if self._reading is None:
            self._reading = asyncio.create_task(self._read(streams))
            self._reading.add_done_callback(retrieve_error)
        if not wait and age <= USABLE:
            return
        try:
            await asyncio.shield(self._reading)
        except StoreUnavailable:
            if self.age > USABLE:
                raise

    @property
    def age(self) -> float:
        """Seconds since the kinds were read."""
        return float("inf") if self._read_at is None else elapsed() - self._read_at

    def forget(self) -> None:
        """Read the kinds again: they have changed. What was read before is not used, also if it arrives later."""
        self._read_at = self._reading = None
        self._changed_at = elapsed()

    async def _read(self, streams: Streams) -> None:
        try:
            found = await streams.known_queues(0.0 if self._read_at is None else READ_EVERY)
        finally:
            self._reading = None
        if found.read_at >= self._changed_at:
            self.tenants = _by_tenant(*found)
            self._read_at = found.read_at


def _by_tenant(found: Sequence[StreamQueue], read_at: float) -> dict[int, dict[str, Kind]]:
    queues: dict[tuple[int, str], list[StreamQueue]] = defaultdict(list)
    for queue in found:
        queues[queue.tenant_id, queue.queue].append(queue)
    tenants: dict[int, dict[str, Kind]] = defaultdict(dict)
    for (tenant_id, name), generations in queues.items():
        current = next((queue for queue in generations if queue.current), None)
        age = min(queue.age for queue in generations)
        tenants[tenant_id][name] = Kind(current, tuple(generations), read_at - age)
    return dict(tenants)

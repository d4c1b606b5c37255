"""Which streams one worker consumes at brokers whose streams have parts, as the store knows it.

Other workers rely on it (`worker/left_streams.py`). While a task blocks the event loop, this worker consumes nothing,
and the heartbeat's thread keeps its lease: that thread removes the entry.
"""

from uuid import UUID

from duetime.clock import monotonic
from duetime.store.protocol.store import Leases
from duetime.streams.protocol import PartConsumer


class ConsumedStreams:
    def __init__(self) -> None:
        self._now: dict[tuple[UUID, PartConsumer], frozenset[str]] = {}
        """By the worker, whose id changes with its session, and consumer."""
        self._recorded: dict[UUID, frozenset[str]] = {}
        """The entry that the store has for each worker. Missing while it is being changed: then it is not known."""
        self._told_at = monotonic()

    async def tell(self, leases: Leases, worker_id: UUID, consumer: PartConsumer, streams: frozenset[str]) -> None:
        """Note the streams that this consumer consumes now. The worker's event loop calls this repeatedly."""
        self._told_at = monotonic()
        self._now[worker_id, consumer] = streams
        of_all = frozenset[str]().union(*(each for (of, _), each in self._now.items() if of == worker_id))
        if of_all != self._recorded.get(worker_id):
            self._recorded.pop(worker_id, None)
            await leases.record_consumed(worker_id, of_all)
            self._recorded[worker_id] = of_all

    async def end(self, leases: Leases, worker_id: UUID, consumer: PartConsumer) -> None:
        """This consumer is closed."""
        if (worker_id, consumer) not in self._now:
            return
        try:
            await self.tell(leases, worker_id, consumer, frozenset())
        finally:
            del self._now[worker_id, consumer]
            if not any(of == worker_id for of, _ in self._now):
                self._recorded.pop(worker_id, None)

    async def check(self, leases: Leases, worker_id: UUID, within: float) -> None:
        """If the event loop has not called `tell` for `within` seconds, record that this worker consumes nothing. May
        be called from any thread."""
        if self._recorded.get(worker_id) and monotonic() - self._told_at > within:
            self._recorded.pop(worker_id, None)
            await leases.record_consumed(worker_id, ())
            self._recorded.pop(worker_id, None)  # told meanwhile: what the store has is not known

"""Which queues go through streams, and what both stores do alike with carried runs."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import msgspec

from duetime.clock import elapsed
from duetime.errors import Conflict
from duetime.model.attempt import Claimed
from duetime.model.carried import CarriedEnd, CarriedRun, Landed, StreamQueue, StreamSettings, UnderClaim
from duetime.model.worker import Seat
from duetime.store.protocol.streams import KnownQueues
from duetime.store.rules.carried_rows import Landing, Stored, assignment, ends_in_order, landing
from duetime.store.rules.stream_limits import limited_queue
from duetime.store.shared.transaction import Row, SharedRole, Transaction

CHANGED_RECENTLY: Final = timedelta(minutes=20)
"""For how long a queue that went back to the store is listed: a submission that is repeated may be in the stream."""
STILL_PUBLISHED: Final = timedelta(minutes=2)
"""For how long a process that has not heard of a change may publish to an earlier generation: twice the age at which it
stops."""
GENERATIONS: Final = 8
"""How many generations of a queue may hold messages at once."""
_decoder = msgspec.json.Decoder(StreamSettings)


class StreamQueueRole(SharedRole, ABC):
    @abstractmethod
    async def _end(self, worker_id: UUID, ends: Sequence[CarriedEnd]) -> frozenset[UUID]:
        """End runs, which are in the order of their ids. Returns the refused ones."""

    @abstractmethod
    async def _land(self, landing: Landing) -> Stored:
        """Store runs, which are in the order of their ids."""

    async def stream_queues(self, tenant_id: int | None = None) -> list[StreamQueue]:
        rows = await self.transactions.rows("list_stream_queues", tenant_id=tenant_id, recent=CHANGED_RECENTLY)
        return [_stream_queue(row) for row in rows]

    async def known_queues(self, within: float) -> KnownQueues:
        known = self.stream_readings.last
        if known is None or elapsed() - known.read_at > within:
            began = elapsed()
            known = KnownQueues(await self.stream_queues(), began)
            self.stream_readings.note(known)
        return known

    async def set_stream(self, tenant_id: int, queue: str, settings: StreamSettings | None) -> StreamQueue | None:
        of_queue = {"tenant_id": tenant_id, "queue": queue}

        async def work(transaction: Transaction) -> None:
            await transaction.lock("lock_queue", **of_queue)
            if settings is not None and await transaction.value("is_limited_queue", **of_queue):
                raise limited_queue()
            rows = await transaction.rows("streams_of_queue", **of_queue)
            current = rows[0] if rows and rows[0]["usable"] else None
            if settings is not None and current is not None and current["address"] == settings.address:
                same = {**of_queue, "generation": current["generation"]}
                await transaction.execute("change_stream", **same, settings=_encoded(settings))
                return
            await transaction.execute("end_stream", **of_queue)
            if settings is None:
                return
            if sum(not row["retired"] for row in rows) >= GENERATIONS:
                raise Conflict(
                    f"{GENERATIONS} earlier streams of this queue may still hold runs",
                    remedy="wait until they are empty: duetime queues show",
                )
            following = {"generation": rows[0]["generation"] + 1 if rows else 1}
            words = {"address": settings.address, "settings": _encoded(settings)}
            await transaction.execute("add_stream", **of_queue, **following, **words)

        await self.transactions.run(work)
        self.stream_readings.forget()
        found = [each for each in await self.stream_queues(tenant_id) if each.queue == queue and each.current]
        return found[0] if found else None

    async def retire_stream(self, tenant_id: int, queue: str, generation: int) -> bool:
        words = {"tenant_id": tenant_id, "queue": queue, "generation": generation}
        return bool(await self.transactions.execute("retire_stream", **words, published=STILL_PUBLISHED))

    async def end_carried(self, worker_id: UUID, ended: Sequence[CarriedEnd]) -> frozenset[UUID]:
        return await self._end(worker_id, ends_in_order(ended)) if ended else frozenset()

    async def land(self, runs: Sequence[CarriedRun], how: Landed | UnderClaim) -> frozenset[UUID]:
        if not runs:
            return frozenset()
        wanted = landing(runs, how)
        stored = await self._land(wanted)
        if not wanted.seats:
            self.ready.announce(len(stored.runs))
        return stored.runs

    async def assign(self, seats: Sequence[Seat], runs: Sequence[tuple[CarriedRun, int]]) -> dict[UUID, list[Claimed]]:
        dealt: dict[UUID, list[Claimed]] = {seat.worker_id: [] for seat in seats}
        if runs:
            wanted = assignment(seats, runs)
            at, started, lanes = await self._land(wanted)
            for run in wanted.runs:
                if run.run_id in started:
                    claimed = run.claimed(at, lanes[run.lane])
                    dealt[seats[wanted.seat_of[run.run_id] - 1].worker_id].append(claimed)
            self.ready.announce(len(wanted.runs) - len(started))
        return dealt


def _encoded(settings: StreamSettings) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(settings, address=""))


def _stream_queue(row: Row) -> StreamQueue:
    age = (row["at"] - row["changed_at"]).total_seconds()
    settings = msgspec.structs.replace(_decoder.decode(row["settings"]), address=row["address"])
    return StreamQueue(row["tenant_id"], row["queue"], row["generation"], settings, row["usable"], age, row["held"])

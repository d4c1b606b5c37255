"""A store, with streams in front of some of its queues, as the source of a worker's runs.

A carried run that succeeds within a third of a lease goes straight to history. For everything else it lands first, and
is then a run of the store like any other (`worker/carried_runs.py`).
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta
from uuid import UUID

from duetime.errors import StoreError, reason_of
from duetime.model.attempt import Completion, RunNote
from duetime.model.carried import CarriedEnd
from duetime.model.dependency import Parent
from duetime.model.run import Event
from duetime.model.worker import Renewal, WorkerInfo
from duetime.store.protocol.store import Completed, Store
from duetime.streams.protocol import Delivery
from duetime.telemetry.meters import Meters
from duetime.worker.carried_runs import Acknowledge, CarriedRuns, Held, Landing
from duetime.worker.consumed_streams import ConsumedStreams
from duetime.worker.source import Wants
from duetime.worker.store_source import StoreSource
from duetime.worker.stream_claimer import StreamClaimer

log = logging.getLogger("duetime.worker")

LAND_AFTER = 1 / 3
"""The share of a lease after which a run lands that has not ended."""


class StreamSource(StoreSource):
    def __init__(
        self,
        store: Store,
        meters: Meters | None = None,
        *,
        carried: CarriedRuns | None = None,
        consumed: ConsumedStreams | None = None,
    ) -> None:
        super().__init__(store)
        self._meters = meters or Meters()
        self._carried = carried or CarriedRuns(self._meters)
        self._consumed = consumed or ConsumedStreams()
        self._claimer: StreamClaimer | None = None

    def companion(self) -> "StreamSource":
        return StreamSource(self._store.companion(), self._meters, carried=self._carried, consumed=self._consumed)

    def claimer(self, wants: Wants) -> StreamClaimer:
        self._claimer = StreamClaimer(self._store, wants, self._carried, self._consumed, self._meters)
        return self._claimer

    async def register(self, worker: WorkerInfo, lease: timedelta) -> UUID:
        if self._claimer is not None:
            self._claimer.lease = lease.total_seconds()
        return await super().register(worker, lease)

    async def renew(self, worker_id: UUID, lease: timedelta, open_claims: Sequence[int], answered: int) -> Renewal:
        renewal = await super().renew(worker_id, lease, open_claims, answered)
        try:
            await self._carried.land_overdue(self._store, worker_id, lease.total_seconds() * LAND_AFTER)
            await self._consumed.check(self._store.leases, worker_id, lease.total_seconds())
        except StoreError as error:
            log.warning("carried runs could not land, and will be tried again: %s", reason_of(error))
        return renewal

    async def complete(
        self, worker_id: UUID, completions: Sequence[Completion], closed_claims: Sequence[int] = ()
    ) -> Completed:
        mine, stored = self._carried.divide(completions)
        if not mine:
            return await super().complete(worker_id, completions, closed_claims)
        ends = [pair for pair in mine if pair[0].landing is None and pair[1].verdict.event is Event.SUCCEED]
        refused = await self._end(worker_id, [pair for pair in ends if not pair[0].over])
        landings: dict[Landing, None] = {}
        if len(ends) < len(mine):
            others = [pair for pair in mine if not pair[0].over]
            await self._carried.land([each for each, _ in others], self._store, "outcome", has_ended=True)
            for each, item in others:
                landing = each.landing
                if landing is not None and item.run_id in landing.stored:
                    landing.reported.add(item.run_id)
                    landings[landing] = None
                    stored.append(item)
                else:
                    refused |= {item.run_id}
        closed = [landing.claim_no for landing in landings if landing.is_over]
        answer = Completed()
        if stored or closed_claims:
            answer = await super().complete(worker_id, stored, [*closed_claims, *closed])
        _close(landings)
        self._carried.forget([each for each, _ in mine])
        return Completed(answer.refused | refused, answer.over) if refused else answer

    async def _end(self, worker_id: UUID, ended: Sequence[tuple[Held, Completion]]) -> frozenset[UUID]:
        """Move runs from their stream to history, then acknowledge their messages."""
        if not ended:
            return frozenset()
        ends = [CarriedEnd(each.run, each.started, item.result, item.logs) for each, item in ended]
        refused = await self._store.streams.end_carried(worker_id, ends)
        done: dict[Acknowledge, list[Delivery]] = {}
        acknowledge: Acknowledge | None = None
        for each, _ in ended:
            each.over = True
            if each.acknowledge is not acknowledge:  # comparing methods costs more than the rest here
                acknowledge = each.acknowledge
                deliveries = done.setdefault(acknowledge, [])
            deliveries += each.deliveries
        for acknowledge, deliveries in done.items():
            acknowledge(deliveries)
        return refused

    async def complete_within(
        self, connection: object, worker_id: UUID, run_id: UUID, fence: int, result: bytes | None, logs: bytes | None
    ) -> None:
        await self._land_those_of([run_id], "report")
        await super().complete_within(connection, worker_id, run_id, fence, result, logs)

    async def hand_back(self, worker_id: UUID, runs: Sequence[tuple[UUID, int]]) -> int:
        mine = await self._land_those_of([run_id for run_id, _ in runs], "stopped")
        landings: dict[Landing, None] = {}
        for each in mine:
            if each.landing is not None and each.run.run_id in each.landing.stored:
                each.landing.reported.add(each.run.run_id)
                landings[each.landing] = None
        released = await super().hand_back(worker_id, runs)
        if closed := [landing.claim_no for landing in landings if landing.is_over]:
            await super().complete(worker_id, [], closed)
        _close(landings)
        self._carried.forget(mine)
        return released

    async def note(self, worker_id: UUID, notes: Sequence[RunNote]) -> Completed:
        await self._land_those_of([note.run_id for note in notes], "report")
        return await super().note(worker_id, notes)

    async def parents(self, worker_id: UUID, run_id: UUID) -> list[Parent]:
        if run_id in self._carried.held:
            return []  # a run with parents is not carried
        return await super().parents(worker_id, run_id)

    async def _land_those_of(self, run_ids: Sequence[UUID], reason: str) -> list[Held]:
        found = self._carried.held
        mine = [found[run_id] for run_id in run_ids if run_id in found]
        if mine:
            await self._carried.land(mine, self._store, reason)
        return mine


def _close(landings: Iterable[Landing]) -> None:
    """Close the claims of landings whose runs have all ended in the store."""
    for landing in landings:
        if landing.is_over:
            landing.session.closed([landing.claim_no])

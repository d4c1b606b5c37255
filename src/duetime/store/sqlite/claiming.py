"""Claiming: each lane is the head of one index; a claimed run leaves that index."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from duetime.model.attempt import Claimed
from duetime.model.event import EventKind
from duetime.model.lane import Lane, LaneChanges, LaneTurn, Look, Sight
from duetime.store.protocol.ready import Announcement
from duetime.store.rules.limit_scopes import Rules
from duetime.store.shared.claim_rules import read_rules
from duetime.store.shared.queues import paused_lanes
from duetime.store.shared.transaction import RunMaker
from duetime.store.sqlite.batches import Batch, claim_ready, claimed_runs
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.event_log import append_run_events, is_heard
from duetime.store.sqlite.freed_runs import end_freed
from duetime.store.sqlite.lanes import LaneBook
from duetime.store.sqlite.limiting import Limited
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import identity, listed, moment, places, unpacked

_heads = msgspec.json.Decoder(list[tuple[int, UUID]])


class ClaimingRole(Role):
    async def lanes(self) -> list[Lane]:
        return await self.database.run(lambda connection, _: self.lane_book.awake(connection))

    async def lane_changes(self, after: LaneTurn) -> LaneChanges:
        return await self.database.run(lambda connection, _: self.lane_book.changes(connection, after))

    async def tidy_lanes(self) -> int:
        return await self.database.run(self.lane_book.tidy)

    async def paused_lanes(self) -> frozenset[int]:
        return await paused_lanes(self.transactions)

    async def rules(self) -> Rules:
        return await read_rules(self)

    async def look(self, lane_ids: Sequence[int], depth: int) -> Look:
        def work(connection: Connection, now: int) -> tuple[int, list[tuple[Any, ...]]]:
            return now, connection.rows("look", {"lane_ids": listed(lane_ids), "depth": depth, "now": now})

        now, rows = await self.database.run(work)
        return Look(moment(now), tuple(_sight(lane_id, _heads.decode(seen)) for lane_id, seen in rows if seen), depth)

    async def claim(self, worker_id: UUID, claim_no: int, takes: Sequence[tuple[int, int]]) -> list[Claimed]:
        def work(connection: Connection, now: int) -> list[Batch]:
            this = {"worker_id": worker_id.bytes, "claim_no": claim_no, "now": now}
            return claim_for(connection, self.lane_book, this, dict(takes))

        return read_batches(await self.database.run(work))

    async def claim_announced(self, worker_id: UUID, claim_no: int, announced: Sequence[Announcement]) -> list[Claimed]:
        by_lane: dict[int, list[UUID]] = defaultdict(list)
        for run_id, lane_id in dict.fromkeys(announced):  # a run may be announced twice
            by_lane[lane_id].append(run_id)

        def work(connection: Connection, now: int) -> list[Batch]:
            this = {"worker_id": worker_id.bytes, "claim_no": claim_no, "now": now}
            takes = {lane_id: len(run_ids) for lane_id, run_ids in by_lane.items()}
            return claim_for(connection, self.lane_book, this, takes, announced=by_lane)

        return read_batches(await self.database.run(work))

    async def release(self, worker_id: UUID, claim_nos: Sequence[int]) -> int:
        def work(connection: Connection, now: int) -> int:
            freed = 0
            for claim_no in claim_nos:
                this = {"worker_id": worker_id.bytes, "claim_no": claim_no, "now": now}
                freed += _release(connection, self.run_maker, this)
            return freed

        freed = await self.database.run(work)
        self.ready.announce(freed)
        return freed


def _sight(lane_id: int, heads: list[tuple[int, UUID]]) -> Sight:
    return Sight(lane_id, tuple(moment(ready_at) for ready_at, _ in heads), tuple(run_id for _, run_id in heads))


def claim_for(
    connection: Connection,
    book: LaneBook,
    this: dict[str, Any],
    left: dict[int, int],
    room: int | None = None,
    announced: Mapping[int, Sequence[UUID]] | None = None,
) -> list[Batch]:
    """Claim for one worker, up to its room. `left` is how many runs each lane may still give, and is reduced. If runs
    were announced, it takes no others."""
    worker = connection.row("alive", this)
    if worker is None:
        return []
    before = connection.value("find_claim", this)
    if before is not None:
        # This claim has happened before, and its answer was lost.
        rows = connection.rows("claimed_before", {**this, "ids": before, "places": places(before)})
        return [Batch.of(claimed_runs(rows))]
    batches: list[Batch] = []
    taken = 0
    rules = Rules.of(connection.rows("rules", this))
    limited = Limited(connection, this["now"], rules)
    for lane_id, take in left.items():
        wanted = take if room is None else min(take, room - taken)
        if wanted > 0 and serves(connection, worker, lane_id):
            key = book.key(connection, lane_id)
            if key is None:
                continue
            is_limited = rules.is_limited(key)
            book.has_limits = book.has_limits or is_limited
            if is_limited or announced is not None:
                chosen = None if announced is None else announced[lane_id]
                found = Batch.of(limited.claim(this, lane_id, key, wanted, chosen))
            else:
                found = claim_ready(connection, this, lane_id, wanted)
            left[lane_id] -= found.size
            taken += found.size
            batches.append(found)
    if taken:
        shortest = min((batch.shortest_ms for batch in batches if batch.shortest_ms is not None), default=None)
        deadline = None if shortest is None else this["now"] + shortest * 1000
        ids = b"".join([batch.ids for batch in batches])
        connection.execute("keep_claim", {**this, "deadline": deadline, "run_ids": ids})
        if is_heard(connection, this["now"]):
            started = [identity(run_id) for run_id in unpacked(ids)]
            append_run_events(connection, this["now"], EventKind.STARTED, started)
    return batches


def _release(connection: Connection, run_maker: RunMaker, this: dict[str, Any]) -> int:
    connection.execute("take_numbers", this)  # no claim can use this number any more
    ids = connection.value("find_claim", this)
    rows = connection.rows("release", {**this, "ids": ids, "places": places(ids)})
    end_freed(connection, this["now"], run_maker, rows)
    return len(rows)


def serves(connection: Connection, worker: tuple[Any, ...], lane_id: int) -> bool:
    """Whether a worker that is bound to a tenant, and perhaps to queues, may take from a lane."""
    tenant_id, queues = worker
    if tenant_id is None:
        return True
    return bool(connection.rows("is_served", {"lane_id": lane_id, "tenant_id": tenant_id, "queues": queues}))


def read_batches(batches: Sequence[Batch]) -> list[Claimed]:
    return [run for batch in batches for run in batch.read()]

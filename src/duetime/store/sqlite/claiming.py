"""Claiming: from lanes, each the head of one index; what is claimed leaves that index."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import msgspec

from duetime.model.attempt import Claimed
from duetime.model.lane import Lane
from duetime.store.protocol import Look, Sight
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import identity, listed, moment, places

_heads = msgspec.json.Decoder(list[tuple[int, UUID]])


class ClaimingRole(Role):
    async def lanes(self, after: int = 0) -> list[Lane]:
        return await self.database.run(lambda connection, _: self.lane_book.after(connection, after))

    async def look(self, lane_ids: Sequence[int], depth: int) -> Look:
        def work(connection: Connection, now: int) -> tuple[int, list[tuple[Any, ...]]]:
            return now, connection.rows("look", {"lane_ids": listed(lane_ids), "depth": depth})

        now, rows = await self.database.run(work)
        return Look(moment(now), tuple(_sight(lane_id, _heads.decode(seen)) for lane_id, seen in rows if seen))

    async def claim(self, worker_id: UUID, claim_no: int, takes: Sequence[tuple[int, int]]) -> list[Claimed]:
        def work(connection: Connection, now: int) -> list[tuple[Any, ...]]:
            return _claim(connection, {"worker_id": worker_id.bytes, "claim_no": claim_no, "now": now}, takes)

        return _claimed(await self.database.run(work))


def _sight(lane_id: int, heads: list[tuple[int, UUID]]) -> Sight:
    return Sight(lane_id, tuple(moment(ready_at) for ready_at, _ in heads), tuple(run_id for _, run_id in heads))


def _claim(connection: Connection, this: dict[str, Any], takes: Sequence[tuple[int, int]]) -> list[tuple[Any, ...]]:
    if not connection.rows("alive", this):
        return []
    before = connection.value("find_claim", this)
    if before is not None:
        # This very claim has happened: its answer was lost on the way.
        return connection.rows("claimed_before", {**this, "ids": before, "places": places(before)})
    rows: list[tuple[Any, ...]] = []
    for lane_id, take in takes:
        rows += connection.rows("claim", {**this, "lane_id": lane_id, "take": take})
    if rows:
        deadline = min((row[8] + row[11] * 1000 for row in rows if row[11] is not None), default=None)
        ids = b"".join([row[0] for row in rows])
        connection.execute("keep_claim", {**this, "deadline": deadline, "run_ids": ids})
    return rows


def _claimed(rows: Iterable[tuple[Any, ...]]) -> list[Claimed]:
    return [
        Claimed(
            identity(row[0]),
            identity(row[1]),
            row[2],
            row[3],
            row[4],
            row[5],
            moment(row[6]),
            moment(row[7]),
            moment(row[8]),
            *row[9:],
        )
        for row in rows
    ]

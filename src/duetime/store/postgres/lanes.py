"""The lanes that this process knows. They are only ever added to, so what is known stays true."""

from collections.abc import Iterable

from duetime.model.lane import Lane, LaneKey
from duetime.store.postgres.database import SQL, Connection, Database


class LaneBook:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._ids: dict[LaneKey, int] = {}
        self._keys: dict[int, LaneKey] = {}

    async def after(self, lane_id: int) -> list[Lane]:
        rows = await self._database.fetch("lanes_after", lane_id)
        found = [Lane(row[0], LaneKey(*row[1:])) for row in rows]
        for lane in found:
            self._remember(lane)
        return found

    async def ids(self, keys: Iterable[LaneKey]) -> dict[LaneKey, int]:
        """The ids of lanes, made where they are missing: in a transaction of their own, before the caller's."""
        wanted = set(keys)
        missing = sorted(wanted - self._ids.keys())
        if missing:
            async with self._database.connection() as connection:
                await self._make(connection, missing)
        return {key: self._ids[key] for key in wanted}

    async def key(self, lane_id: int) -> LaneKey:
        if lane_id not in self._keys:
            await self.after(0)
        return self._keys[lane_id]

    async def _make(self, connection: Connection, missing: list[LaneKey]) -> None:
        # Sorted, so that two nodes that make the same lanes never wait for each other in a circle.
        await connection.execute(
            SQL["make_lanes"],
            [key.tenant_id for key in missing],
            [key.queue for key in missing],
            [key.tier for key in missing],
            [key.task for key in missing],
            [key.trial for key in missing],
        )
        for row in await connection.fetch(SQL["lanes_after"], 0):
            self._remember(Lane(row[0], LaneKey(*row[1:])))

    def _remember(self, lane: Lane) -> None:
        self._ids[lane.key] = lane.id
        self._keys[lane.id] = lane.key

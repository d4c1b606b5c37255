"""The lanes that this process knows. They are only ever added to, so what is known stays true.

Unless the database goes back: a replica that lacked the last of them takes over, or a copy is put in its place. Then
ids in memory name nothing, or something else. Every new connection is asked for the newest that is known here.

Whoever needs a lane inside a transaction looks for it on the connection it has, and makes it on one of its own: if all
who hold a connection of the pool waited for a second one, they would wait for each other.
"""

import logging
from collections.abc import Iterable, Mapping

from duetime.errors import StoreRewound, StoreUnavailable
from duetime.model.lane import Lane, LaneKey
from duetime.store.postgres.database import SQL, Connection, Database, columns

log = logging.getLogger("duetime.store")


class LaneBook:
    def __init__(self, database: Database) -> None:
        self._database = database
        database.greet = self._check
        self._rewound: StoreRewound | None = None
        self._ids: dict[LaneKey, int] = {}
        self._keys: dict[int, LaneKey] = {}
        self.has_keyed = False
        """Whether there are lanes whose runs have keys."""

    @property
    def known(self) -> Mapping[int, LaneKey]:
        """The lanes that this process has seen."""
        return self._keys

    async def after(self, lane_id: int) -> list[Lane]:
        """The lanes above an id. Raises `StoreRewound` when ids that were given before may not hold any more."""
        if self._rewound is not None:
            raise self._rewound
        async with self._database.connection() as connection:
            return await self._read(connection, lane_id)

    async def ids(self, keys: Iterable[LaneKey]) -> dict[LaneKey, int]:
        """The ids of lanes, made where they are missing."""
        wanted = set(keys)
        if not wanted <= self._ids.keys():
            async with self._database.connection() as connection:
                await self._make(connection, wanted)
                return {key: self._ids[key] for key in wanted}
        return {key: self._ids[key] for key in wanted}

    async def ids_within(self, connection: Connection, keys: Iterable[LaneKey]) -> dict[LaneKey, int]:
        """The same inside a transaction; lanes that are missing are made beside it, and stay whatever becomes of it."""
        wanted = set(keys)
        if not wanted <= self._ids.keys():
            await self._read(connection, 0)
        if not wanted <= self._ids.keys():
            own = await self._database.connect()
            try:
                await self._make(own, wanted)
            finally:
                await own.close()
        return {key: self._ids[key] for key in wanted}

    async def key_within(self, connection: Connection, lane_id: int) -> LaneKey:
        if lane_id not in self._keys:
            await self._read(connection, 0)
        return self._keys[lane_id]

    async def _check(self, connection: Connection) -> None:
        """Whoever only submits goes on with what the database has now; whoever serves lanes has to begin anew."""
        newest = max(self._keys, default=0)
        if not newest:
            return
        known = self._keys[newest]
        row = await connection.fetchrow(SQL["lane"], newest)
        if row is None or LaneKey(*row) != known:
            self._rewound = StoreRewound(
                "the database went back behind what this process knows: it was restored, or a replica took over",
                remedy="start this process again",
            )
            log.critical("%s", self._rewound)
            self._ids.clear()
            self._keys.clear()
            raise StoreUnavailable("the database has just gone back in time; ask again")

    async def _make(self, connection: Connection, wanted: set[LaneKey]) -> None:
        rows = [
            (key.tenant_id, key.queue, key.tier, key.task, key.trial, key.keyed)
            for key in sorted(wanted - self._ids.keys())
        ]
        await connection.execute(SQL["make_lanes"], *columns(rows, 6))
        await self._read(connection, 0)

    async def _read(self, connection: Connection, after: int) -> list[Lane]:
        found = [Lane(row[0], LaneKey(*row[1:])) for row in await connection.fetch(SQL["lanes_after"], after)]
        for lane in found:
            self._ids[lane.key] = lane.id
            self._keys[lane.id] = lane.key
            self.has_keyed = self.has_keyed or lane.key.keyed
        return found

"""This process's cache of lanes, and which of them are awake.

The cache may be outdated: a lane falls asleep when it has no runs, and a database that was reset to an earlier state (a
replica with missing transactions took over, or a backup was restored) may have no such lane, or another one with its
id. So every transaction that stores runs checks its lanes by id and nonce; a lane that does not match is looked up
again, and woken. Processes that serve lanes read the changes by turns. The last turn that they read has a nonce too: if
it differs or is gone, the database was reset, whichever connection notices it.

A lane that a transaction needs is woken on a separate connection: if all callers with a connection of the pool waited
for a second one, they would deadlock.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from duetime.errors import StoreUnavailable
from duetime.model.lane import NO_TURN, Lane, LaneChanges, LaneKey, LaneTurn
from duetime.store.postgres.database import SQL, Connection, Database, Row, columns
from duetime.store.rules.tenant_states import submitters

_KNOWN_AT_MOST = 50_000
LANE_TRIES = 5
"""How often lanes are looked up again if they fall asleep before a run is stored."""


class Home(NamedTuple):
    """A lane that history may refer to, awake or not."""

    id: int
    nonce: int


class LaneBook:
    def __init__(self, database: Database, most: int) -> None:
        self._database = database
        self.most = most
        self._ids: dict[LaneKey, int] = {}
        self._keys: dict[int, LaneKey] = {}
        self._nonces: dict[int, int] = {}
        self._homes: dict[LaneKey, Home] = {}
        self._lessons = 0
        self._learned: dict[int, int] = {}
        """The number of the read that saw each lane last."""
        self.has_keyed = False
        """Whether any lane has runs with keys."""

    @property
    def known(self) -> Mapping[int, LaneKey]:
        """The lanes that this process has seen."""
        return self._keys

    async def awake(self) -> list[Lane]:
        """The lanes that are awake, by id."""
        async with self._database.connection() as connection:
            return await self._read_awake(connection)

    async def changes(self, after: LaneTurn) -> LaneChanges:
        rewound = False
        async with self._database.connection() as connection:
            if after != NO_TURN:
                rows = await connection.fetch(SQL["lane_changes"], after.number)
                if rows and tuple(rows[0][:2]) == after:
                    return self._changed(after, rows[1:])
                rewound = not rows or rows[0][0] == after.number  # else the turn is so old that it was removed
                self.forget()
            newest = await connection.fetchrow(SQL["newest_lane_change"])
            lanes = await self._read_awake(connection)
        turn = NO_TURN if newest is None else LaneTurn(*newest)
        return LaneChanges(turn, lanes, [], whole=True, rewound=rewound)

    async def ids(self, keys: Iterable[LaneKey], *, new_work: bool = True) -> dict[LaneKey, int]:
        """The ids of lanes. Lanes that are not awake are woken or created, new work within the tenants' limits. The ids
        are valid as far as this process knows."""
        wanted = set(keys)
        for _ in range(LANE_TRIES):
            missing = _unknown(wanted, self._ids)
            if not missing:
                return {key: self._ids[key] for key in wanted}
            async with self._database.connection() as connection:
                self._learn(await connection.fetch(SQL["find_lanes"], *_columns(missing)))
                if missing := _unknown(wanted, self._ids):
                    await self._wake(connection, missing, self.most if new_work else None)
        raise _too_fast()

    async def homes(self, keys: Iterable[LaneKey], *, new_work: bool = False) -> dict[LaneKey, Home]:
        """The lanes of carried runs, which never wait in them. They need not be awake; those that were not used for a
        day are woken, so that they are not removed. The limit on lanes applies only to new work."""
        wanted = set(keys)
        for _ in range(LANE_TRIES):
            if wanted <= self._homes.keys():
                return {key: self._homes[key] for key in wanted}
            missing = _unknown(wanted, self._homes)
            async with self._database.connection() as connection:
                await self._find_homes(connection, missing)
                if missing := _unknown(wanted, self._homes):
                    await self._wake(connection, missing, self.most if new_work else None)
        raise _too_fast()

    def knows_homes(self, keys: AbstractSet[LaneKey]) -> bool:
        """Whether `homes` of these needs no statement."""
        return keys <= self._homes.keys()

    def forget_homes(self, keys: Iterable[LaneKey]) -> None:
        for key in keys:
            self._homes.pop(key, None)

    async def _find_homes(self, connection: Connection, keys: set[LaneKey]) -> None:
        if len(self._homes) > _KNOWN_AT_MOST:
            self._homes.clear()
        for lane_id, nonce, *words in await connection.fetch(SQL["find_homes"], *_columns(keys)):
            self._homes[LaneKey(*words)] = Home(lane_id, nonce)

    async def ids_within(
        self, connection: Connection, keys: Iterable[LaneKey], *, new_work: bool = False
    ) -> dict[LaneKey, int]:
        """The ids of lanes inside a transaction, valid until its end. The limit on lanes, and the state of tenants,
        apply only to new work."""
        wanted = set(keys)
        for _ in range(LANE_TRIES):
            if missing := _unknown(wanted, self._ids):
                self._learn(await connection.fetch(SQL["find_lanes"], *_columns(missing)))
            if missing := _unknown(wanted, self._ids):
                own = await self._database.connect()
                try:
                    await self._wake(own, missing, self.most if new_work else None)
                finally:
                    await own.close()
            if _unknown(wanted, self._ids):
                continue  # another caller has just found one of them unusable
            found = {key: self._ids[key] for key in wanted}
            if not await self._drop_unusable(
                connection, found.values(), sorted(submitters(wanted)) if new_work else ()
            ):
                return found
        raise _too_fast()

    async def awake_within(self, connection: Connection, lane_ids: Iterable[int]) -> dict[int, int]:
        """The current id of each of these lanes, which may have fallen asleep or been removed."""
        keys = {lane_id: await self.key_within(connection, lane_id) for lane_id in set(lane_ids)}
        found = await self.ids_within(connection, keys.values())
        return {lane_id: found[key] for lane_id, key in keys.items()}

    async def key_within(self, connection: Connection, lane_id: int) -> LaneKey:
        if lane_id not in self._keys:
            rows = await connection.fetch(SQL["lanes_by_id"], [lane_id])
            if not rows:
                raise StoreUnavailable(f"the lane {lane_id} is gone", remedy="try again")
            return LaneKey(*rows[0][1:])
        return self._keys[lane_id]

    async def keys_within(self, connection: Connection, lane_ids: Iterable[int]) -> dict[int, LaneKey]:
        """The keys of lanes. Removed lanes are omitted."""
        wanted = set(lane_ids)
        missing = [lane_id for lane_id in wanted if lane_id not in self._keys]
        read = await connection.fetch(SQL["lanes_by_id"], missing) if missing else []
        known = {lane_id: self._keys[lane_id] for lane_id in wanted if lane_id in self._keys}
        return known | {row[0]: LaneKey(*row[1:]) for row in read}

    def stamped(self, lane_ids: Iterable[int]) -> tuple[list[int], list[int]]:
        """Distinct lanes with their nonces, as arguments of `unusable_lanes`."""
        ids = list(set(lane_ids))
        return ids, [self._nonces.get(lane_id, -1) for lane_id in ids]

    async def doubt(self, lane_ids: Iterable[int]) -> None:
        """Drop those of these lanes from the cache that are not valid any more."""
        async with self._database.connection() as connection:
            await self._drop_unusable(connection, lane_ids)

    def forget(self) -> None:
        self._ids.clear()
        self._keys.clear()
        self._nonces.clear()
        self._learned.clear()
        self._homes.clear()

    async def _drop_unusable(
        self, connection: Connection, lane_ids: Iterable[int], tenants: Sequence[int] = ()
    ) -> bool:
        """Whether some of these lanes are not valid. Lanes that other callers have read since the question stay: they
        may have woken a lane that the answer calls asleep."""
        asked = self._lessons
        stamped = self.stamped(lane_ids)
        unusable: list[int] = (
            await connection.fetchval(SQL["unusable_for_new_work"], *stamped, tenants)
            if tenants
            else await connection.fetchval(SQL["unusable_lanes"], *stamped)
        )
        self._drop(lane_id for lane_id in unusable if self._learned.get(lane_id, 0) <= asked)
        return bool(unusable)

    def _drop(self, lane_ids: Iterable[int]) -> None:
        for lane_id in lane_ids:
            self._nonces.pop(lane_id, None)
            self._learned.pop(lane_id, None)
            if (key := self._keys.pop(lane_id, None)) is not None and self._ids.get(key) == lane_id:
                del self._ids[key]

    async def _wake(self, connection: Connection, wanted: set[LaneKey], most: int | None) -> None:
        await connection.execute(SQL["wake_lanes"], *_columns(wanted), most)
        self._learn(await connection.fetch(SQL["find_lanes"], *_columns(wanted)))

    async def _read_awake(self, connection: Connection) -> list[Lane]:
        return self._learn(await connection.fetch(SQL["awake_lanes"]))

    def _changed(self, after: LaneTurn, rows: Sequence[Row]) -> LaneChanges:
        woken: dict[int, Sequence[Any]] = {}
        asleep: dict[int, None] = {}
        for turn, nonce, awake, *lane in rows:
            after = LaneTurn(turn, nonce)
            if lane[0] is None:
                continue  # the lane was removed
            asleep.pop(lane[0], None)
            woken.pop(lane[0], None)
            if awake:
                woken[lane[0]] = lane
            else:
                asleep[lane[0]] = None
        self._drop(asleep)
        return LaneChanges(after, self._learn(woken.values()), list(asleep), whole=False)

    def _learn(self, rows: Iterable[Any]) -> list[Lane]:
        if len(self._keys) > _KNOWN_AT_MOST:
            self.forget()
        self._lessons += 1
        found = []
        for lane_id, nonce, *words in rows:
            key = LaneKey(*words)
            found.append(Lane(lane_id, key))
            before = self._keys.get(lane_id, key)
            if before != key and self._ids.get(before) == lane_id:
                del self._ids[before]  # the database was reset, and the id belongs to another lane now
            self._ids[key] = lane_id
            self._keys[lane_id] = key
            self._nonces[lane_id] = nonce
            self._learned[lane_id] = self._lessons
            self.has_keyed = self.has_keyed or key.keyed
        return found


def _unknown(wanted: set[LaneKey], known: Mapping[LaneKey, object]) -> set[LaneKey]:
    return {key for key in wanted if key not in known}


def _too_fast() -> StoreUnavailable:
    return StoreUnavailable("the run's lane was removed repeatedly while it was being stored", remedy="try again")


def _columns(keys: Iterable[LaneKey]) -> list[list[object]]:
    return columns([(key.tenant_id, key.queue, key.tier, key.task, key.trial, key.keyed) for key in sorted(keys)], 6)

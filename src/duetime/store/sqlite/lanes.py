"""The lanes of the file. They are only ever added to, so what is known stays true, unless it was rolled back."""

from collections.abc import Iterable

from duetime.model.lane import Lane, LaneKey
from duetime.store.sqlite.connection import Connection


def _key(tenant_id: int, queue: str, tier: int, task: str, trial: int, keyed: int) -> LaneKey:
    return LaneKey(tenant_id, queue, tier, task, trial, bool(keyed))


class LaneBook:
    """Used on the store's own thread only."""

    def __init__(self) -> None:
        self._ids: dict[LaneKey, int] = {}
        self._keys: dict[int, LaneKey] = {}
        self.has_limits = False
        """Whether anything was claimed under a limit: then the end of a run may let another one start."""

    def after(self, connection: Connection, lane_id: int) -> list[Lane]:
        found = [Lane(row[0], _key(*row[1:])) for row in connection.rows("lanes_after", {"after": lane_id})]
        for lane in found:
            self._ids[lane.key] = lane.id
            self._keys[lane.id] = lane.key
        return found

    def ids(self, connection: Connection, keys: Iterable[LaneKey]) -> dict[LaneKey, int]:
        """The ids of lanes, made where they are missing."""
        wanted = set(keys)
        missing = sorted(wanted - self._ids.keys())
        if missing:
            rows = [(key.tenant_id, key.queue, key.tier, key.task, key.trial, key.keyed) for key in missing]
            connection.many("make_lanes", rows)
            self.after(connection, 0)
        return {key: self._ids[key] for key in wanted}

    def key(self, connection: Connection, lane_id: int) -> LaneKey:
        if lane_id not in self._keys:
            self.after(connection, 0)
        return self._keys[lane_id]

    def forget(self) -> None:
        """Something was rolled back: perhaps a lane."""
        self._ids.clear()
        self._keys.clear()

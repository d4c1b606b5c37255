"""The lanes of the file, and which of them are awake.

The file has one process and one writer, so this cache is valid until this process lets a lane fall asleep, or a
transaction is rolled back.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from duetime.clock import Clock, monotonic
from duetime.model.lane import LANE_IDLE, LANES_AT_ONCE, NO_TURN, Lane, LaneChanges, LaneKey, LaneTurn
from duetime.model.notification import QUEUE as NOTIFICATIONS
from duetime.model.tenant import TenantState
from duetime.store.rules.limit_scopes import lanes_are_used_up
from duetime.store.rules.quotas import over_quota
from duetime.store.rules.tenant_states import may_not_submit, submitters
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.values import listed, microseconds, stamp

_A_DAY = 86_400_000_000
_LONG = 0.005
_SHARE = 0.01
"""Passes over all runs take at most this share of the time."""


def _key(tenant_id: int, queue: str, tier: int, task: str, trial: int, keyed: int) -> LaneKey:
    return LaneKey(tenant_id, queue, tier, task, trial, bool(keyed))


def _lane(key: LaneKey) -> dict[str, object]:
    words = (key.tenant_id, key.queue, key.tier, key.task, key.trial, key.keyed)
    return dict(zip(("tenant_id", "queue", "tier", "task", "trial", "keyed"), words, strict=True))


class LaneBook:
    """Only the store's own thread uses it."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self.most = most
        self._ids: dict[LaneKey, int] = {}
        self._keys: dict[int, LaneKey] = {}
        self._tidy_at = 0.0
        self.has_limits = False
        """Whether any run was claimed under a limit: then the end of a run may let another run start."""

    def awake(self, connection: Connection) -> list[Lane]:
        """The lanes that are awake, by id."""
        found = [Lane(row[0], _key(*row[1:])) for row in connection.rows("awake_lanes", {})]
        for lane in found:
            self._learn(lane)
        return found

    def changes(self, connection: Connection, after: LaneTurn) -> LaneChanges:
        """What changed after a turn."""
        rows = [] if after == NO_TURN else connection.rows("lane_changes", {"turn": after.number})
        if rows and rows[0][0] == after.number:
            latest = {lane_id: words if awake else None for _, awake, lane_id, *words in rows[1:]}
            turn = LaneTurn(rows[-1][0], 0)
            awake = [Lane(lane_id, _key(*words)) for lane_id, words in latest.items() if words is not None]
            asleep = [lane_id for lane_id, words in latest.items() if words is None]
            return LaneChanges(turn, awake, asleep, whole=False)
        newest = connection.value("newest_lane_change", {})
        turn = NO_TURN if newest is None else LaneTurn(newest, 0)
        return LaneChanges(turn, self.awake(connection), [], whole=True)

    def ids(self, connection: Connection, keys: Iterable[LaneKey], *, new_work: bool = False) -> dict[LaneKey, int]:
        """The ids of lanes; wakes or creates those that are not awake. The limit on lanes, and the state of tenants,
        apply only to new work."""
        wanted = set(keys)
        for tenant_id in submitters(wanted) if new_work else ():
            row = connection.row("find_firing", {"tenant_id": tenant_id})
            if row is not None and row[0] != TenantState.ACTIVE:
                raise may_not_submit(TenantState(row[0]))
        if missing := sorted(key for key in wanted if key not in self._ids):
            self._wake(connection, missing, new_work=new_work)
        return {key: self._ids[key] for key in wanted}

    def awake_again(self, connection: Connection, lane_id: int) -> int:
        """The current id of a lane that may have fallen asleep."""
        key = self.key(connection, lane_id)
        return lane_id if key is None else self.ids(connection, [key])[key]

    def key(self, connection: Connection, lane_id: int) -> LaneKey | None:
        """The key of a lane, if it exists."""
        if lane_id not in self._keys:
            row = connection.row("lanes_by_id", {"id": lane_id})
            return None if row is None else _key(*row[1:])
        return self._keys[lane_id]

    def tidy(self, connection: Connection, now: int) -> int:
        """Let lanes without runs fall asleep."""
        began = monotonic()
        if began < self._tidy_at:
            return 0
        idle = microseconds(LANE_IDLE)
        rows = connection.rows("quiet_lanes", {"before": now - idle, "most": LANES_AT_ONCE})
        ids = [lane_id for lane_id, waited_in in rows if not waited_in]
        if ids:
            used = {row[0] for row in connection.rows("lanes_of_runs", {})}
            ids = [lane_id for lane_id in ids if lane_id not in used]
            connection.many("rest_lanes", [{"id": lane_id, "now": now} for lane_id in ids])
        kept = {lane_id for lane_id, _ in rows}.difference(ids)
        connection.many("keep_lane", [{"id": lane_id, "until": now + 4 * idle} for lane_id in kept])
        connection.execute("tidy_lanes", {"before": now - _A_DAY // 24})
        for lane_id in ids:
            if (key := self._keys.pop(lane_id, None)) is not None:
                self._ids.pop(key, None)
        took = monotonic() - began
        if took > _LONG:
            self._tidy_at = monotonic() + took / _SHARE
        return len(ids)

    def wake_used(self, connection: Connection, now: int) -> int:
        """Wake lanes that are asleep although they have runs."""
        ids = [row[0] for row in connection.rows("wake_used_lanes", {"now": now})]
        connection.many("put_lane_change", [{"lane_id": lane_id, "now": now} for lane_id in ids])
        return len(ids)

    def forget(self) -> None:
        """Clear the cache after a rollback, which may have undone a lane."""
        self._ids.clear()
        self._keys.clear()

    def _wake(self, connection: Connection, keys: Sequence[LaneKey], *, new_work: bool) -> None:
        now = stamp(self._clock.now())
        rows = {key: connection.row("find_lanes", _lane(key)) for key in keys}
        if new_work:
            unused = [key for key, row in rows.items() if row is None or (not row[1] and row[2] <= now - _A_DAY)]
            self._check_room(connection, unused, now - _A_DAY)
        for key, row in rows.items():
            if row is None or not row[1]:
                connection.execute("wake_lanes", {**_lane(key), "now": now})
                row = connection.row("find_lanes", _lane(key))
                assert row is not None
                connection.execute("put_lane_change", {"lane_id": row[0], "now": now})
            self._learn(Lane(int(row[0]), key))

    def _check_room(self, connection: Connection, keys: Sequence[LaneKey], after: int) -> None:
        """Check that the tenants of these lanes may use so many more. They are counted once, however many there are:
        the count takes milliseconds where a tenant has thousands, and all other callers wait for the file."""
        queues: dict[int, list[str]] = defaultdict(list)
        for key in keys:
            if key.tenant_id > 0:  # what a node makes for itself is no tenant's
                queues[key.tenant_id].append(key.queue)
        for tenant_id, names in queues.items():
            used = {"tenant_id": tenant_id, "after": after}
            if connection.value("lanes_used", {**used, "most": self.most}) + len(names) > self.most:
                raise lanes_are_used_up(self.most)
            most = connection.value("queue_limit", {"tenant_id": tenant_id})
            if most is not None:
                asked = listed(sorted({*names} - {NOTIFICATIONS}))
                [(fresh, known)] = connection.rows("queues_used", {**used, "names": asked})
                if fresh and known + fresh > most:
                    raise over_quota("queues", most)

    def _learn(self, lane: Lane) -> None:
        self._ids[lane.key] = lane.id
        self._keys[lane.id] = lane.key

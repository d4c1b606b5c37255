"""The lanes that a worker serves: which there are, which are paused, and what limits they are under."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from duetime.clock import monotonic
from duetime.model.attempt import Claimed
from duetime.model.lane import Lane
from duetime.model.shares import FullLanes
from duetime.model.target import kind_of
from duetime.store.protocol.store import Claiming
from duetime.store.rules.limit_scopes import Rules
from duetime.store.shared.awake_lanes import LaneFollower

_LANES_EVERY = 0.05
_PAUSES_EVERY = 0.5

OpenTargets = Callable[[], frozenset[tuple[int, str]]]


class KnownLanes:
    def __init__(
        self, store: Claiming, places: Mapping[str, int], queues: Iterable[str], open_targets: OpenTargets
    ) -> None:
        self._store = store
        self._queues = frozenset(queues)
        self._open_targets = open_targets
        self._all = LaneFollower(store)
        self._read_at = -1.0
        self._paused: frozenset[int] = frozenset()
        self._paused_read_at = -1.0
        self.places = dict(places)
        """Where a task runs."""
        self.by_id: dict[int, Lane] = {}
        self.rules = Rules()
        self.full = FullLanes()

    def hint(self) -> None:
        """Something has changed: there may be room in a lane that was full, and a queue may not be paused any more."""
        self.full.freed(monotonic())
        if self._paused:
            self._paused_read_at = -1.0

    @property
    def until_read(self) -> float:
        """How long until lanes may be read again."""
        return max(0.0, self._read_at + _LANES_EVERY - monotonic())

    async def read(self, *, now: bool = False) -> bool:
        """Learn of lanes that woke and that this worker serves; true when there were any."""
        if self.until_read and not now:
            return False
        self._read_at = monotonic()
        found = False
        fresh, gone = await self._all.read()
        for lane_id in gone:
            self.by_id.pop(lane_id, None)
        for lane in fresh:
            place = self.places.get(kind_of(lane.key.task))
            if place is not None and (not self._queues or lane.key.queue in self._queues):
                self.by_id[lane.id] = lane
                self.places[lane.key.task] = place
                self._paused_read_at = -1.0  # a new lane may belong to a queue that is paused
                found = True
        return found

    async def open(self) -> list[int]:
        """Those that runs may be claimed from at this moment."""
        await self._read_pauses()
        self.full.forget(monotonic())
        lanes = [lane_id for lane_id in self.by_id if lane_id not in self._paused and lane_id not in self.full]
        if open_targets := self._open_targets():
            keys = ((lane_id, self.by_id[lane_id].key) for lane_id in lanes)
            lanes = [lane_id for lane_id, key in keys if (key.tenant_id, key.task) not in open_targets]
        return lanes

    def learn_what_is_full(self, takes: Sequence[tuple[int, int]], claimed: Sequence[Claimed]) -> None:
        self.full.learn(takes, claimed, self._is_limited, monotonic())

    def until_one_may_be_asked_again(self, most: float) -> float:
        return self.full.until_the_next(monotonic(), most)

    def _is_limited(self, lane_id: int) -> bool:
        lane = self.by_id.get(lane_id)
        return lane is not None and self.rules.is_limited(lane.key)

    async def _read_pauses(self) -> None:
        if monotonic() - self._paused_read_at >= _PAUSES_EVERY:
            self._paused_read_at = monotonic()
            self._paused = await self._store.paused_lanes()
            self.rules = await self._store.rules()

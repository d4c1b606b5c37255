"""Figures of single queues for metrics: depth, age of the oldest due run, arrivals and running runs.

The number of series is bounded. A queue gets its own series when it is first busy, and keeps them: an autoscaler must
see a queue fall to zero. When there is no room for a new one, a queue that has been idle gives up its place; if none
has, the new queue is counted with all others, in one series without labels.

A round costs a bounded effort, whatever the number of jobs: see `store/protocol/demand.py`.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import NamedTuple

from duetime.errors import NotFound
from duetime.model.demand import LaneDepth, QueueActivity
from duetime.model.job import INTERNAL_TENANT
from duetime.model.lane import Lane, Look
from duetime.model.notification import QUEUE as NOTIFICATIONS
from duetime.store.protocol.store import Store
from duetime.telemetry.meters import Gauge, Labelled

WINDOW = timedelta(minutes=1)
_MOST_COUNTED = 200_000
"""About how many waiting runs a round counts."""
_LEAST = 100
_OTHERS = ("", "")

Place = tuple[int, str]
"""A tenant and a queue."""


class QueueFigure(NamedTuple):
    depth: int = 0
    running: int = 0
    arrivals: float = 0.0
    oldest: float = 0.0

    @property
    def idle(self) -> bool:
        return not (self.depth or self.running or self.arrivals)

    def beside(self, other: "QueueFigure") -> "QueueFigure":
        return QueueFigure(
            self.depth + other.depth,
            self.running + other.running,
            self.arrivals + other.arrivals,
            max(self.oldest, other.oldest),
        )


class QueueFigures:
    def __init__(self, store: Store, *, most: int, in_streams: Callable[[], Mapping[Place, int]]) -> None:
        self._store = store
        self._most = most
        self._in_streams = in_streams
        self._shown: dict[Place, QueueFigure] = {}
        self._names: dict[int, str] = {}
        self._others = QueueFigure()
        self.gauges: dict[str, Gauge] = {
            "duetime_tenant_queue_depth": lambda: self._by(lambda figure: figure.depth),
            "duetime_tenant_queue_running": lambda: self._by(lambda figure: figure.running),
            "duetime_tenant_queue_arrivals_per_second": lambda: self._by(lambda figure: figure.arrivals),
            "duetime_tenant_queue_oldest_age_seconds": lambda: self._by(lambda figure: figure.oldest),
        }

    @property
    def tenants(self) -> frozenset[int]:
        return frozenset(tenant_id for tenant_id, _ in self._shown)

    def name(self, names: Mapping[int, str]) -> None:
        """Set the current names of tenants, by their id."""
        self._names.update(names)

    async def read(self, lanes: Mapping[int, Lane], look: Look) -> None:
        """Read the figures. `look` has the first runs of the lanes that are not paused."""
        found = await self._read(lanes, look)
        for place in [each for each in found if each not in self._shown]:
            await self._make_room(place, found)
        shown = self._shown.keys()
        self._shown = {place: found.get(place, QueueFigure()) for place in shown}
        self._others = _sum(figure for place, figure in found.items() if place not in shown)

    async def _read(self, lanes: Mapping[int, Lane], look: Look) -> dict[Place, QueueFigure]:
        activity = await self._store.demand.activity(WINDOW)
        due = [sight.lane_id for sight in look.sights if sight.ready_at[0] <= look.now and sight.lane_id in lanes]
        cap = max(_LEAST, _MOST_COUNTED // max(1, len(due)))
        depths: dict[Place, list[LaneDepth]] = {}
        for depth in await self._store.demand.lane_depths(due, activity.since, cap):
            key = lanes[depth.lane_id].key
            depths.setdefault((key.tenant_id, key.queue), []).append(depth)
        streams = self._in_streams()
        found = {}
        for place in depths.keys() | activity.queues.keys() | {each for each, count in streams.items() if count}:
            now, waiting = activity.queues.get(place, QueueActivity()), depths.get(place, [])
            found[place] = QueueFigure(
                sum(each.runs for each in waiting) + streams.get(place, 0),
                now.running,
                activity.rate(now.arrived + sum(each.arrived for each in waiting)),
                max(((look.now - each.ready_at).total_seconds() for each in waiting), default=0.0),
            )
        return {
            (tenant_id, queue): figure
            for (tenant_id, queue), figure in found.items()
            if tenant_id != INTERNAL_TENANT and queue != NOTIFICATIONS
        }

    async def _make_room(self, place: Place, found: Mapping[Place, QueueFigure]) -> None:
        if found[place].idle:
            return
        if len(self._shown) >= self._most:
            idle = (each for each, before in self._shown.items() if before.idle and each not in found)
            if (leaving := next(idle, None)) is None:
                return
            del self._shown[leaving]
        tenant_id, _ = place
        if tenant_id not in self._names:
            try:
                self._names[tenant_id] = (await self._store.tenants.tenant_by_id(tenant_id)).name
            except NotFound:
                return
        self._shown[place] = found[place]
        self._names = {each: self._names[each] for each in self.tenants}

    def _by(self, value: Callable[[QueueFigure], float]) -> Labelled:
        shown: dict[tuple[str, ...], float] = {
            (self._names[tenant_id], queue): float(value(figure)) for (tenant_id, queue), figure in self._shown.items()
        }
        if not self._others.idle:
            shown[_OTHERS] = float(value(self._others))
        return shown


def _sum(figures: Iterable[QueueFigure]) -> QueueFigure:
    total = QueueFigure()
    for figure in figures:
        total = total.beside(figure)
    return total

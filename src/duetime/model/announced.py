"""Which ready runs a worker leaves to their announcements in streams.

A relay announces the runs of a lane in the order of claims, and a busy worker may get an announcement long after its
run was ready. To claim the run from the lane meanwhile would cost more than it saves: the announcement still comes, and
is one more claim that finds nothing. So a lane whose announcements arrive is left to them. Only what they have passed
over is claimed from it: another worker got the announcement and did not claim the run.

A lane is claimed from like others, but a second later, when no announcement of it has arrived in the last second that
the worker spent fetching. Its relay may be gone, or its announcements may wait behind many other messages.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from math import inf
from uuid import UUID

from duetime.clock import monotonic
from duetime.model.attempt import Claimed
from duetime.model.lane import LaneKey
from duetime.model.microseconds import EPOCH, moment

Position = tuple[datetime, UUID]
"""When a run is ready, and its id: what orders the runs of a lane."""
LAST_ID = UUID(int=(1 << 128) - 1)
_WITHIN = 1.0
"""Seconds within which a ready run is announced and claimed, unless announcements wait for room here."""


def is_announced(key: LaneKey, queues: Collection[tuple[int, str]]) -> bool:
    """Whether the runs of a lane are announced in streams: those of these queues, unless claims treat them one by
    one."""
    return not key.trial and not key.keyed and (key.tenant_id, key.queue) in queues


class Announced:
    def __init__(self) -> None:
        self.queues: Collection[tuple[int, str]] = frozenset()
        """The queues of tenants whose runs are announced."""
        self._fetched_at = self._occupied_at = -inf
        self._heard_at: dict[int, float] = {}
        self._passed: dict[int, list[tuple[float, Position]]] = {}
        """By lane: how far announcements had come, and when: at most two entries, the first older than the second."""
        self.passed_over: Counter[tuple[int, str, int]] = Counter()
        """How many runs were claimed without an announcement, by tenant, queue and tier."""

    def covers(self, key: LaneKey) -> bool:
        """Whether the runs of a lane are announced."""
        return is_announced(key, self.queues)

    def fetched(self) -> None:
        """Messages have arrived."""
        self._fetched_at = self._occupied_at = monotonic()

    def occupied(self) -> None:
        """There is no room for messages."""
        self._occupied_at = monotonic()

    def heard(self, lane_ids: Iterable[int]) -> None:
        """Announcements of these lanes have arrived."""
        self._heard_at.update(dict.fromkeys(lane_ids, monotonic()))

    def reached(self, runs: Iterable[Claimed]) -> None:
        """These runs were claimed by their announcements."""
        last: dict[int, tuple[int, UUID]] = {}
        for run in runs:
            position = run.ready, run.run_id
            last[run.lane_id] = max(position, last.get(run.lane_id, position))
        now = monotonic()
        for lane_id, (ready, run_id) in last.items():
            passed = self._passed.setdefault(lane_id, [])
            if len(passed) == 2 and now - passed[1][0] >= _WITHIN:
                del passed[0]
            if len(passed) < 2:
                passed.append((now, (moment(ready), run_id)))

    def claimed(self, lanes: Iterable[LaneKey]) -> None:
        """Runs of these lanes were claimed from them, without an announcement."""
        self.passed_over.update((key.tenant_id, key.queue, key.tier) for key in lanes if self.covers(key))

    def forget(self, lane_id: int) -> None:
        """This lane is asleep."""
        self._heard_at.pop(lane_id, None)
        self._passed.pop(lane_id, None)

    def until(self, lane_id: int, now: datetime) -> Position:
        """Runs of a covered lane up to this position are claimed without an announcement."""
        at = monotonic()
        fetches = at - self._occupied_at < _WITHIN
        arrive = self._fetched_at - self._heard_at.get(lane_id, -inf) < _WITHIN
        if not (fetches and arrive):
            return now - timedelta(seconds=_WITHIN), LAST_ID
        passed = (position for since, position in reversed(self._passed.get(lane_id, ())) if at - since >= _WITHIN)
        return next(passed, (EPOCH, LAST_ID))

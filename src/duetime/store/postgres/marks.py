"""Low-water marks: where the unclaimed runs of a lane begin, so that a claim never walks dead index entries.

A mark may move up to a moment t only when nothing below t can appear any more. `ready_at` is stamped with the
database's clock, so a transaction that begins after t writes above t; one that began before t may still commit below.
So: note (t, a transaction that had not begun at t). Once the oldest running transaction is not below that one,
everything below t is visible to the statement that saw it, and t is *settled*. The number noted is drawn for it: the
upper bound of a snapshot would not do, which is one above the last transaction that has *ended*. Statements of one
process run side by side: what one of them has found settled counts for those that are sent after it, and not for one
that is under way, whose snapshot may be older.

Who holds unclaimed runs without claiming them must not leave them as they were: a claim may have passed over them
meanwhile. It ends them, withdraws them, or stamps them anew. What is left is a transaction that was rolled back after
a claim passed over its rows. A full look, without marks, finds those: five seconds later, or after a hundred times
what such a look takes, whichever is longer.
"""

from collections import deque
from datetime import UTC, datetime, timedelta

from duetime.clock import monotonic

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
# A statement reads the clock a moment before its transaction gets its number.
_MARGIN = timedelta(seconds=1)
_OUT_OF_ORDER = timedelta(seconds=0.5)
"""Answers of statements side by side may come in another order than they were made; a clock that went back by less
stays above what is settled."""
_NOTE_EVERY = timedelta(milliseconds=200)
_FULL_LOOK_SHARE = 0.01
_FULL_LOOK_PAUSE = 5.0


class Marks:
    def __init__(self) -> None:
        self._marks: dict[int, datetime] = {}
        self._notes: deque[tuple[datetime, int]] = deque()
        self.settled = BEGINNING
        """Below this moment everything is visible to every statement from now on."""
        self._highest = BEGINNING
        self._full_look_at = monotonic() + _FULL_LOOK_PAUSE

    def __getitem__(self, lane_id: int) -> datetime:
        return self._marks.get(lane_id, BEGINNING)

    @property
    def noted_at(self) -> datetime | None:
        """The last moment that was noted."""
        return self._notes[-1][0] if self._notes else None

    def observe(self, now: datetime, oldest_running: int, unborn: int | None, before: datetime) -> datetime:
        """Take note of a snapshot, if a number was drawn with it; returns the moment that is settled for the statement
        that had it, given what was settled when it was sent."""
        moment = now - _MARGIN
        if moment < self._highest - _OUT_OF_ORDER:
            self.forget()  # the database's clock went back: nothing is proven any more
            self._highest = moment
        self._highest = max(self._highest, moment)
        proven = min(before, self.settled)  # it may have been forgotten meanwhile
        while self._notes and self._notes[0][1] <= oldest_running:
            proven = max(proven, self._notes.popleft()[0])
        self.settled = max(self.settled, proven)
        if unborn is not None and (not self._notes or moment - self._notes[-1][0] >= _NOTE_EVERY):
            self._notes.append((moment, unborn))
        return proven

    def advance(self, lane_id: int, first_left: datetime | None, settled: datetime) -> None:
        """All unclaimed runs of the lane below `first_left` are gone, as far as the statement could see."""
        mark = settled if first_left is None else min(settled, first_left)
        if mark > self[lane_id]:
            self._marks[lane_id] = mark

    def lower(self, first_unclaimed: dict[int, datetime]) -> None:
        """A full look found runs below a mark (a claim that was rolled back): go back to them."""
        for lane_id, ready_at in first_unclaimed.items():
            if ready_at < self[lane_id]:
                self._marks[lane_id] = ready_at

    def forget(self) -> None:
        """Start again from the beginning: after a reconnect, or when the clock went back."""
        self._marks.clear()
        self._notes.clear()
        self.settled = BEGINNING

    @property
    def full_look_is_due(self) -> bool:
        return monotonic() >= self._full_look_at

    def full_look_took(self, seconds: float) -> None:
        self._full_look_at = monotonic() + max(_FULL_LOOK_PAUSE, seconds / _FULL_LOOK_SHARE)

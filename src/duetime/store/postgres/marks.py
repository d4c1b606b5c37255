"""Low-water marks: where the unclaimed runs of a lane begin, so that a claim never walks over dead index entries.

A mark may move up to a moment t only when no run below t can appear any more. `ready_at` is set from the database's
clock, so a transaction that begins after t writes above t; one that began before t may still commit below. So the
process notes (t, the number of a transaction that had not begun at t). Once the oldest running transaction is not below
that number, everything below t is visible to the statement that saw it, and t is *settled*. The number is drawn for
this purpose: the upper bound of a snapshot is not enough, because it is one above the last transaction that has
*ended*. Statements of one process run concurrently: what one of them has found settled is valid for statements that are
sent after it, and not for one that is running, whose snapshot may be older.

A transaction that locks unclaimed runs without claiming them must not leave them unchanged, because a claim may have
skipped them. It ends them, withdraws them, or sets a new `ready_at`. One case remains: a transaction that was rolled
back after a claim skipped its rows. A full look, without marks, finds such runs: after five seconds, or after a hundred
times the duration of such a look, whichever is longer.
"""

from collections import deque
from datetime import UTC, datetime, timedelta

from duetime.clock import monotonic

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
# A statement reads the clock a moment before its transaction gets its number.
_MARGIN = timedelta(seconds=1)
_OUT_OF_ORDER = timedelta(seconds=0.5)
"""Answers of concurrent statements may arrive in another order. A clock that went back by less stays above what is
settled."""
_NOTE_EVERY = timedelta(milliseconds=200)
_FULL_LOOK_SHARE = 0.01
_FULL_LOOK_PAUSE = 5.0


class Marks:
    def __init__(self) -> None:
        self._marks: dict[int, datetime] = {}
        self._notes: deque[tuple[datetime, int]] = deque()
        self.settled = BEGINNING
        """Everything below this moment is visible to all statements from now on."""
        self._highest = BEGINNING
        self._full_look_at = monotonic() + _FULL_LOOK_PAUSE

    def __getitem__(self, lane_id: int) -> datetime:
        return self._marks.get(lane_id, BEGINNING)

    @property
    def noted_at(self) -> datetime | None:
        """The last moment that was noted."""
        return self._notes[-1][0] if self._notes else None

    def observe(self, now: datetime, oldest_running: int, unborn: int | None, before: datetime) -> datetime:
        """Note a snapshot, if a number was drawn with it. Returns the moment that is settled for its statement, given
        what was settled when the statement was sent."""
        moment = now - _MARGIN
        if moment < self._highest - _OUT_OF_ORDER:
            self.forget()  # the database's clock went back, which invalidates all proofs
            self._highest = moment
        self._highest = max(self._highest, moment)
        proven = min(before, self.settled)  # the marks may have been reset in the meantime
        while self._notes and self._notes[0][1] <= oldest_running:
            proven = max(proven, self._notes.popleft()[0])
        self.settled = max(self.settled, proven)
        if unborn is not None and (not self._notes or moment - self._notes[-1][0] >= _NOTE_EVERY):
            self._notes.append((moment, unborn))
        return proven

    def advance(self, lane_id: int, first_left: datetime | None, settled: datetime) -> None:
        """Move a mark: the statement saw no unclaimed runs of the lane below `first_left`."""
        mark = settled if first_left is None else min(settled, first_left)
        if mark > self[lane_id]:
            self._marks[lane_id] = mark

    def lower(self, first_unclaimed: dict[int, datetime]) -> None:
        """Move marks back to runs that a full look found below them (a claim was rolled back)."""
        for lane_id, ready_at in first_unclaimed.items():
            if ready_at < self[lane_id]:
                self._marks[lane_id] = ready_at

    def forget(self) -> None:
        """Reset all marks: after a reconnect, or when the clock went back."""
        self._marks.clear()
        self._notes.clear()
        self.settled = BEGINNING

    @property
    def full_look_is_due(self) -> bool:
        return monotonic() >= self._full_look_at

    def full_look_took(self, seconds: float) -> None:
        self._full_look_at = monotonic() + max(_FULL_LOOK_PAUSE, seconds / _FULL_LOOK_SHARE)

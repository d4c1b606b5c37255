"""Figures, made from the rows of any store."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from duetime.model.attempt import AttemptState
from duetime.model.figures import Ahead, Count, Failing, Lag, Recent, Step, Stretch, Upcoming, Waiting
from duetime.model.run import RunState
from duetime.store.views import Fields

CAP = 10_000
"""Up to where jobs, running runs and dead letters are counted."""
LOOKED_AT = 6000
"""How many cursors a forecast looks at, over all its stretches."""
COUNTED = 500_000
"""How many cursors are counted, beyond those that are looked at."""
_OTHER_ENDS = {
    RunState.SUCCEEDED: "succeeded",
    RunState.FAILED: "failed",
    RunState.CANCELLED: "cancelled",
    RunState.SKIPPED: "skipped",
}


def count_to(found: int, cap: int) -> Count:
    return Count(found) if found <= cap else Count(cap, "at_least")


def recent(rows: Iterable[Sequence[Any]], since: datetime, until: datetime, step: timedelta, seen: datetime) -> Recent:
    """From rows (kind, number, attempt state, end state, name, value); `seen` is from when on nothing is missing."""
    last = -(-(until - since) // step) - 1
    counts: dict[int, dict[str, int]] = {}
    lags: dict[int, timedelta] = {}
    failing = []
    for kind, number, attempt_state, end_state, name, value in rows:
        if kind == "step":
            found = counts.setdefault(min(number, last), {})  # what ends this very moment counts too
            word = _word(attempt_state, end_state)
            if word is not None:
                found[word] = found.get(word, 0) + int(value)
            if attempt_state == AttemptState.LOST:
                found["lost"] = found.get("lost", 0) + int(value)
        elif kind == "lag":
            lags[number] = timedelta(seconds=max(0.0, value))
        elif kind == "failing":
            failing.append(Failing(name, int(value), number))
    steps = tuple(Step(since + step * number, **counts.get(number, {})) for number in range(last + 1))
    lag = Lag(lags[50], lags[95], lags[100]) if lags else None
    return Recent(seen, until, steps, lag, tuple(failing))


def _word(attempt_state: int, end_state: int | None) -> str | None:
    if end_state is not None:
        return _OTHER_ENDS[RunState(end_state)]
    return "retried" if attempt_state == AttemptState.FAILED else None


def waiting(rows: Iterable[Sequence[Any]]) -> tuple[Waiting, ...]:
    """From rows (task, queue, ready_at), longest waiting first; lanes of one task and queue are one."""
    found: dict[tuple[str, str], Waiting] = {}
    for task, queue, since in rows:
        found.setdefault((task, queue), Waiting(task, queue, since))
    return tuple(found.values())


def upcoming(row: Fields, stretch: int) -> Upcoming:
    schedule = bytes(row["schedule"]) if row["recurring"] else None
    return Upcoming(row["next_fire_at"], row["queue"], stretch, row["job_id"], schedule, row["options"])


class Looking:
    """Gathers what is to come, stretch by stretch, and says where more is there than was looked at."""

    def __init__(self, stretches: int) -> None:
        self.each = max(20, LOOKED_AT // stretches)
        self.left = COUNTED
        self._found: list[Upcoming] = []
        self._stretches = [Stretch() for _ in range(stretches)]

    def made(self, at: datetime, queue: str) -> None:
        self._found.append(Upcoming(at, queue, 0))

    def saw(self, stretch: int, rows: Sequence[Fields]) -> bool:
        """Take the cursors of a stretch; true when there may be more of them than these."""
        self._found += [upcoming(row, stretch) for row in rows if row["job_id"] is not None]
        self._stretches[stretch] = Stretch(len(rows), len(rows))
        return len(rows) >= self.each

    def counted(self, stretch: int, there: int, cap: int) -> None:
        self.left -= there
        self._stretches[stretch] = Stretch(self.each, max(there, self.each), there < cap)

    def ahead(self) -> Ahead:
        return Ahead(tuple(self._found), self._stretches)

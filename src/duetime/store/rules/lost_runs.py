"""Which runs of a claim are lost: the same for every store."""

from collections.abc import Iterable
from datetime import timedelta

from duetime.model.attempt import Claimed
from duetime.model.completion import not_tried
from duetime.model.outcome import Skipped
from duetime.model.worker import Lost
from duetime.store.rules.job_rows import Fields


def lost_with_worker(rows: Iterable[Fields]) -> list[Lost]:
    """The runs of a worker that is gone: all of them."""
    return [_lost(row, timed_out=False) for row in rows]


def not_held(rows: Iterable[Fields]) -> list[Lost]:
    """The runs of a live worker that does not hold them, though they may have started."""
    return [_lost(row, timed_out=False, not_held=True) for row in rows]


def past_timeout(rows: Iterable[Fields], overdue: timedelta) -> list[Lost]:
    """The runs that their live worker should have stopped long ago."""
    return [
        _lost(row, timed_out=True)
        for row in rows
        if row["timeout_ms"] is not None and row["ran_for"] > timedelta(milliseconds=row["timeout_ms"]) + overdue
    ]


def handed_over(rows: Iterable[Fields]) -> list[Lost]:
    """The runs that were handed over: to be finished, or late."""
    return [_lost(row, timed_out=True, handed_over=True) for row in rows]


def never_started(runs: Iterable[Claimed]) -> list[Lost]:
    """Of waiting runs, as a claim would find them now: those that would be skipped."""
    found = []
    for run in runs:
        outcome = not_tried(run)
        if isinstance(outcome, Skipped):
            said = (run.run_id, run.fence, run.attempt, run.lost, run.options)
            found.append(Lost(*said, False, False, timedelta(0), late=outcome.reason))
    return found


def _lost(row: Fields, *, timed_out: bool, handed_over: bool = False, not_held: bool = False) -> Lost:
    return Lost(
        run_id=row["id"],
        fence=row["fence"],
        attempt=row["attempt"],
        lost=row["lost"],
        options=row["options"],
        cancel_requested=row["cancel_requested"],
        timed_out=timed_out,
        ran_for=row["ran_for"],
        handed_over=handed_over,
        not_held=not_held,
    )

"""Figures from the rows of either store."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from duetime.model.attempt import AttemptState
from duetime.model.overview import AheadPage, ComingJob, Count, Failing, Lag, Recent, Step, Waiting
from duetime.model.run import RunState
from duetime.store.rules.job_rows import Fields, from_row

CAP = 10_000
"""The cap on counts of jobs, running runs and dead letters."""
LOOKED_AT = 10_000
"""If a tenant has at most this many jobs, a forecast reads all of them."""
SAMPLED = 4000
"""If a tenant has more, a forecast reads a sample of about this many."""
COUNTED = 1_000_000
"""The cap on the number of jobs from which the sample is drawn."""
MOST_MADE = 200_000
"""The cap on the count of existing runs that are not due yet."""
_OTHER_ENDS = {
    RunState.SUCCEEDED: "succeeded",
    RunState.FAILED: "failed",
    RunState.CANCELLED: "cancelled",
    RunState.SKIPPED: "skipped",
}


def count_to(found: int, cap: int) -> Count:
    return Count(found) if found <= cap else Count(cap, "at_least")


def recent(rows: Iterable[Fields], since: datetime, until: datetime, step: timedelta, seen: datetime) -> Recent:
    """From rows of steps, lags and failing tasks; the data is complete from `seen` on."""
    last = -(-(until - since) // step) - 1
    counts: dict[int, dict[str, int]] = {}
    lags: dict[int, timedelta] = {}
    failing = []
    for row in rows:
        kind, number, value, attempt_state = row["kind"], row["number"], row["value"], row["attempt_state"]
        if kind == "step":
            found = counts.setdefault(min(number, last), {})  # includes runs that end at this moment
            word = _word(attempt_state, row["end_state"])
            if word is not None:
                found[word] = found.get(word, 0) + int(value)
            if attempt_state == AttemptState.LOST:
                found["lost"] = found.get("lost", 0) + int(value)
        elif kind == "lag":
            lags[number] = timedelta(seconds=max(0.0, value))
        elif kind == "failing":
            failing.append(Failing(row["name"], int(value), number))
    steps = tuple(Step(since + step * number, **counts.get(number, {})) for number in range(last + 1))
    lag = Lag(lags[50], lags[95], lags[100]) if lags else None
    return Recent(seen, until, steps, lag, tuple(failing))


def _word(attempt_state: int, end_state: int | None) -> str | None:
    if end_state is not None:
        return _OTHER_ENDS[RunState(end_state)]
    return "retried" if attempt_state == AttemptState.FAILED else None


def waiting(rows: Iterable[Fields]) -> tuple[Waiting, ...]:
    """From rows of lanes, longest waiting first. Lanes of the same task and queue are merged."""
    found: dict[tuple[str, str], Waiting] = {}
    for row in rows:
        if row["ready_at"] is not None:
            found.setdefault((row["task"], row["queue"]), Waiting(row["task"], row["queue"], row["ready_at"]))
    return tuple(found.values())


def coming_job(row: Fields) -> ComingJob:
    return from_row(ComingJob, row, schedule=bytes(row["schedule"]))


def sample_bound(there: int) -> bytes:
    """The last two bytes of an id are random: of so many jobs, about `SAMPLED` have a lower value there."""
    return min(0xFFFF, max(1, 0x10000 * SAMPLED // there)).to_bytes(2, "big")


def ahead_page(
    now: datetime,
    jobs: Sequence[ComingJob],
    made: Sequence[tuple[UUID, str, int]],
    horizon: UUID | None,
    most: int,
    *,
    limited: bool,
) -> AheadPage:
    """`made` are the jobs of existing runs, newest first, down to the horizon or `most` of them."""
    if len(made) >= most and (horizon is None or made[-1][0] > horizon):
        horizon = made[-1][0]
        jobs = [job for job in jobs if job.job_id >= horizon]
    runs = {(job_id, queue): count for job_id, queue, count in made}
    return AheadPage(now, jobs, runs, horizon, limited)

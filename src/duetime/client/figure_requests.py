"""What may be asked for people who look: figures, what is to come, and who one is."""

from collections.abc import Iterable

from duetime.client.request import Ask, Length, Moment, given
from duetime.wire.figures import Fires, Me, RecentRuns, Stats


def get_stats(*, window: Length | None = None) -> Ask[Stats]:
    """How the tenant stands, and what happened in the window before now."""
    return Ask("GET", "/v1/stats", Stats, given(window=window))


def list_fires(*, start: Moment | None = None, end: Moment | None = None, step: Length | None = None) -> Ask[Fires]:
    """How many runs are due when, by queue, of those that are still to come."""
    return Ask("GET", "/v1/fires", Fires, given(start=start, end=end, step=step))


def list_recent_runs(job_ids: Iterable[str], *, count: int | None = None) -> Ask[RecentRuns]:
    """How the last runs of up to 100 jobs ended."""
    return Ask("GET", "/v1/recent-runs", RecentRuns, given(job_ids=",".join(job_ids), count=count))


def get_me() -> Ask[Me]:
    """Who the key belongs to, and what it may do."""
    return Ask("GET", "/v1/me", Me)

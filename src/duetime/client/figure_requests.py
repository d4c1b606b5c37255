"""Requests for statistics, future fires and the current caller."""

from collections.abc import Iterable
from typing import Literal

from duetime.client.request import Length, Moment, Request, given
from duetime.wire.figures import Fires, Me, RecentRuns, Stats, Trends


def get_stats(*, window: Length | None = None) -> Request[Stats]:
    """The state of the tenant, and its activity in the last `window`."""
    return Request("GET", "/v1/stats", Stats, given(window=window))


def get_trends(range: Literal["hour", "day", "week"] | None = None) -> Request[Trends]:
    """Lag, duration and throughput over the last hour, day or week."""
    return Request("GET", "/v1/trends", Trends, given(range=range))


def list_fires(*, start: Moment | None = None, end: Moment | None = None, step: Length | None = None) -> Request[Fires]:
    """The number of future runs by queue and time."""
    return Request("GET", "/v1/fires", Fires, given(start=start, end=end, step=step))


def list_recent_runs(job_ids: Iterable[str], *, count: int | None = None) -> Request[RecentRuns]:
    """How the last runs of up to 100 jobs ended."""
    return Request("GET", "/v1/recent-runs", RecentRuns, given(job_ids=",".join(job_ids), count=count))


def get_me() -> Request[Me]:
    """The key of this client, its tenant and its permissions."""
    return Request("GET", "/v1/me", Me)

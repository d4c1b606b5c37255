"""Lists the jobs that have a run in a time range, page by page: the jobs that a forecast of the range counts, each with
how many runs of it are counted."""

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from duetime.engine.jobs_ahead import read_ahead
from duetime.model.forecast import runs_at_rate, runs_of
from duetime.model.lists import JobFilter, JobItem, Page
from duetime.model.overview import AheadPage
from duetime.store.protocol.store import Store

_LOOKED_AT = 1000
_MOST_LOOKS = 5

Compute = Callable[..., Awaitable[Any]]
"""Runs a function off the event loop."""


async def list_coming_jobs(
    store: Store,
    compute: Compute,
    tenant_id: int,
    wanted: JobFilter,
    start: datetime,
    end: datetime,
    before: UUID | None,
    limit: int,
) -> tuple[Page[JobItem], Counter[UUID]]:
    """A page of jobs, newest first, and how many runs each has in the range. A page may be shorter than `limit`, or
    empty, while there are more: see `model/lists.py`."""
    runs = Counter[UUID]()
    horizon = before
    at_rate: Counter[UUID] | None = None
    for number in range(_MOST_LOOKS):
        page = await store.figures.ahead_page(tenant_id, start, end, horizon, _LOOKED_AT)
        if number == 0 and page.is_limited:
            # What a job fires depends on all others.
            ahead = await read_ahead(store, tenant_id, start, end - start, 1)
            at_rate = await compute(runs_at_rate, ahead, start, end)
        runs.update(await compute(_firing, page, wanted.queue, start, end, at_rate))
        horizon = page.horizon
        if horizon is None or len(runs) > limit:
            break
    found = sorted(runs, reverse=True)
    if len(found) > limit:
        found = found[:limit]
        horizon = found[-1]
    if not found:
        return Page((), horizon), runs
    only = msgspec.structs.replace(wanted, ids=tuple(found))
    items = await store.lists.list_jobs(tenant_id, only, None, len(found))
    return Page(items.items, horizon), runs


def _firing(
    page: AheadPage, queue: str | None, start: datetime, end: datetime, at_rate: Counter[UUID] | None
) -> Counter[UUID]:
    runs = Counter[UUID]()
    for (job_id, its_queue), count in page.made.items():
        if queue in (None, its_queue):
            runs[job_id] += count
    for job in page.jobs:
        if queue not in (None, job.queue):
            continue
        count = runs_of(job, page.now, start, end) if at_rate is None else at_rate[job.job_id]
        if count:
            runs[job.job_id] += count
    return runs

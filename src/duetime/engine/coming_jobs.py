"""Lists the jobs that have a run in a time range, page by page: the jobs that a forecast of the range counts."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from uuid import UUID

import msgspec

from duetime.model.forecast import runs_of
from duetime.model.lists import JobFilter, JobItem, Page
from duetime.model.overview import AheadPage
from duetime.store.protocol.store import Store

_LOOKED_AT = 1000
_MOST_LOOKS = 5

Compute = Callable[..., Awaitable[list[UUID]]]
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
) -> Page[JobItem]:
    """A page of jobs, newest first. A page may be shorter than `limit`, or empty, while there are more: see
    `model/lists.py`."""
    found: list[UUID] = []
    horizon = before
    for _ in range(_MOST_LOOKS):
        page = await store.figures.ahead_page(tenant_id, start, end, horizon, _LOOKED_AT)
        found += await compute(_firing, page, wanted.queue, start, end)
        horizon = page.horizon
        if horizon is None or len(found) > limit:
            break
    if len(found) > limit:
        found = found[:limit]
        horizon = found[-1]
    if not found:
        return Page((), horizon)
    only = msgspec.structs.replace(wanted, ids=tuple(found))
    items = await store.lists.list_jobs(tenant_id, only, None, len(found))
    return Page(items.items, horizon)


def _firing(page: AheadPage, queue: str | None, start: datetime, end: datetime) -> list[UUID]:
    ids = {job_id for job_id, its_queue in page.made.items() if queue in (None, its_queue)}
    for job in page.jobs:
        if queue in (None, job.queue) and job.job_id not in ids and runs_of(job, page.now, start, end):
            ids.add(job.job_id)
    return sorted(ids, reverse=True)

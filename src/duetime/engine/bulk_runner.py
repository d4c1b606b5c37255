"""The bulk runner carries out bulk actions, a batch at a time. It runs on every server; a lease in the store keeps each
action to one of them.

A batch is a page of the list that the filter describes. Its objects are handled one by one with the same methods as
single actions, then the progress is stored. A server that dies in between loses at most the record of one batch: the
next server repeats it. Cancelling, pausing, resuming, discarding and retrying twice is the same as once, and an extra
run is made under a key that names the bulk action and the job.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import assert_never
from uuid import UUID

from duetime.clock import monotonic
from duetime.errors import Conflict, DuetimeError, NotFound, StoreUnavailable
from duetime.ids import new_id, show
from duetime.model.audit import AuditEntry
from duetime.model.bulk import (
    LONGEST_ERROR,
    MOST_ERRORS,
    Bulk,
    BulkCount,
    BulkError,
    BulkStep,
    BulkWork,
    DeadLettersWork,
    Item,
    JobsWork,
    RunsWork,
    applies,
)
from duetime.model.failure import bounded
from duetime.model.idempotency import keyed_request
from duetime.model.lists import MOST_ON_A_PAGE, DeadFilter, DeadLetter, JobItem, Page, RunItem
from duetime.store.protocol.store import Store
from duetime.store.rules.replays import repeat_id

BATCH = 50
MOST_COUNTED = 10_000
_INTERVAL = 1.0
_LEASE = timedelta(seconds=30)
_TURN = 0.5
"""Seconds for which one action continues before the others get their turn."""
_LONGEST_COUNT = 1.0
"""The maximum seconds that a preview spends counting."""
_SAMPLE = 5


class BulkRunner:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._holder = new_id()

    async def tick(self) -> float:
        bulk = await self._store.bulk.take_bulk(self._holder, _LEASE)
        if bulk is None:
            return _INTERVAL
        until = monotonic() + _TURN
        rate = bulk.plan.rate
        below, errors = bulk.below, bulk.errors
        while True:
            limit = BATCH if rate is None else max(1, min(BATCH, int(rate)))
            page = await list_page(self._store, bulk.tenant_id, bulk.plan.work, below, limit)
            step = await self._batch(bulk, page, errors)
            if not await self._store.bulk.keep_bulk(bulk, self._holder, step, _LEASE):
                return 0.0  # stopped, or another server continues it
            below, errors = step.below, errors if step.errors is None else step.errors
            if step.finished:
                await self._record_end(bulk)
                return 0.0
            if rate is not None and step.done:
                await self._store.bulk.leave_bulk(bulk, self._holder, timedelta(seconds=step.done / rate))
                return 0.0
            if monotonic() > until:
                await self._store.bulk.leave_bulk(bulk, self._holder, timedelta(0))
                return 0.0

    async def _batch(self, bulk: Bulk, page: Page[Item], errors: tuple[BulkError, ...]) -> BulkStep:
        done = skipped = failed = 0
        fresh: list[BulkError] = []
        for item in page.items:
            if not applies(bulk.plan.work, item):
                skipped += 1
                continue
            try:
                await self._act(bulk, item)
            except StoreUnavailable:
                raise
            except (NotFound, Conflict):  # it changed meanwhile
                skipped += 1
            except DuetimeError as error:
                failed += 1
                fresh.append(BulkError(shown_id(item), bounded(str(error), LONGEST_ERROR)))
            else:
                done += 1
        kept = (*reversed(fresh), *errors)[:MOST_ERRORS] if fresh else None
        return BulkStep(page.next, done, skipped, failed, kept, finished=page.next is None)

    async def _retry(self, bulk: Bulk, run_id: UUID) -> None:
        nonce = bulk.id.bytes  # so that what it has repeated is known, whatever the clock shows
        run = await self._store.replay.retry_run(bulk.tenant_id, run_id, nonce)
        if run.id not in (run_id, repeat_id(run_id, run.job_id, run.due_at, nonce)):
            raise Conflict("the run was already retried")

    async def _act(self, bulk: Bulk, item: Item) -> None:
        store, tenant_id, work = self._store, bulk.tenant_id, bulk.plan.work
        match work:
            case JobsWork():
                assert isinstance(item, JobItem)
                match work.action:
                    case "cancel":
                        await store.control.cancel_job(tenant_id, item.id)
                    case "pause":
                        await store.control.pause_job(tenant_id, item.id)
                    case "resume":
                        await store.control.resume_job(tenant_id, item.id)
                    case "run":
                        key = f"{show('blk', bulk.id)}/{show('job', item.id)}"
                        keyed = keyed_request(key, "bulk", bulk.id, item.id)
                        await store.control.trigger_job(tenant_id, item.id, os.urandom(8), keyed)
            case RunsWork():
                assert isinstance(item, RunItem)
                match work.action:
                    case "cancel":
                        await store.control.cancel_run(tenant_id, item.id)
                    case "retry":
                        await self._retry(bulk, item.id)
            case DeadLettersWork():
                assert isinstance(item, DeadLetter)
                match work.action:
                    case "retry":
                        await self._retry(bulk, item.run_id)
                    case "discard":
                        await store.replay.discard_dead_letters(tenant_id, DeadFilter(run_id=item.run_id), 1)
            case _:
                assert_never(work)

    async def _record_end(self, bulk: Bulk) -> None:
        with suppress(NotFound):
            end = await self._store.bulk.bulk(bulk.tenant_id, bulk.id)
            detail = f"{end.done} done, {end.skipped} skipped, {end.failed} failed"
            about = show("blk", bulk.id)
            entry = AuditEntry(new_id(), bulk.tenant_id, bulk.key_id, bulk.actor, "bulk_actions.end", about, detail)
            await self._store.audit.record([entry])


async def list_page(store: Store, tenant_id: int, work: BulkWork, below: UUID | None, limit: int) -> Page[Item]:
    match work:
        case JobsWork():
            return _page(await store.lists.list_jobs(tenant_id, work.filter, below, limit))
        case RunsWork():
            return _page(await store.lists.list_runs(tenant_id, work.filter, below, limit))
        case DeadLettersWork():
            return _page(await store.lists.list_dead_letters(tenant_id, work.filter, below, limit))
        case _:
            assert_never(work)


async def count_affected(store: Store, tenant_id: int, work: BulkWork) -> BulkCount:
    """Count what a bulk action would affect, up to a bound of objects and of time."""
    until = monotonic() + _LONGEST_COUNT
    matching = affected = 0
    sample: list[Item] = []
    below: UUID | None = None
    while True:
        page = await list_page(store, tenant_id, work, below, MOST_ON_A_PAGE)
        concerned = [item for item in page.items if applies(work, item)]
        matching += len(page.items)
        affected += len(concerned)
        sample += concerned[: _SAMPLE - len(sample)]
        below = page.next
        if below is None or matching >= MOST_COUNTED or monotonic() > until:
            return BulkCount(matching, affected, below is None, tuple(sample))


def shown_id(item: Item) -> str:
    if isinstance(item, DeadLetter):
        return show("run", item.run_id)
    return show("job" if isinstance(item, JobItem) else "run", item.id)


def _page(page: Page[JobItem] | Page[RunItem] | Page[DeadLetter]) -> Page[Item]:
    items: Sequence[Item] = page.items
    return Page(tuple(items), page.next, page.archived)

"""Single submissions that arrive together are stored together.

While one transaction of a tenant is in progress, new submissions of that tenant wait, and the next transaction stores
them. A single caller therefore waits for no other, and under load one commit serves many. When the store refuses a
batch because of one of its jobs, they are stored one by one, so that each caller gets its own answer.

The queue is bounded, per tenant and in total. Beyond that, or when the store has not answered a tenant for too long,
callers are refused at once (`Overloaded`). One tenant's backlog does not count against another.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from duetime.clock import monotonic
from duetime.engine.key_wait import retry_while_key_is_held
from duetime.errors import Conflict, InvalidInput, NotFound, Overloaded, QuotaExceeded, StoreRejected
from duetime.model.job import NewJob, Submitted
from duetime.process.loop import retrieve_error
from duetime.store.protocol.store import Store

ABOUT_ONE_JOB = (InvalidInput, NotFound, Conflict, StoreRejected, QuotaExceeded)
"""Errors about one job of a batch: the others may be stored without it. If the jobs together exceed a quota, some of
them may be stored."""
MOST_TOGETHER = 500
MOST_WAITING = 20_000
MOST_OF_ONE = MOST_WAITING // 2
"""How many submissions of one tenant may wait."""
OVERLOADED_AFTER = 2.0
"""Seconds: when the current transaction has taken this long, the database is overloaded."""
TIMEOUT = 10.0
"""Seconds after which a caller gets `Overloaded`. Whether the job is stored is unknown then."""


class _Waiting(NamedTuple):
    job: NewJob
    answer: asyncio.Future[Submitted]


class SubmitBatcher:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._queues: dict[int, deque[_Waiting]] = {}
        """Waiting submissions, for each tenant with a transaction in progress."""
        self._waiting = 0
        self._since: dict[int, float] = {}
        """When the current transaction of each tenant began."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, tenant_id: int, job: NewJob) -> Submitted:
        """Store a job, batched with others if there are any. A job whose `key` another transaction holds waits for it
        without delaying the rest of its batch."""
        return await retry_while_key_is_held(lambda: self._enqueue(tenant_id, job))

    async def submit_all(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Store all of these jobs or none, in one transaction."""
        self._check(tenant_id)
        return await retry_while_key_is_held(lambda: self._submit(tenant_id, jobs))

    async def _enqueue(self, tenant_id: int, job: NewJob) -> Submitted:
        self._check(tenant_id)
        answer: asyncio.Future[Submitted] = asyncio.get_running_loop().create_future()
        queue = self._queues.get(tenant_id)
        if queue is None:
            queue = self._queues[tenant_id] = deque()
            task = asyncio.create_task(self._store_queue(tenant_id, queue))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        queue.append(_Waiting(job, answer))
        self._waiting += 1
        return await answer

    def _check(self, tenant_id: int) -> None:
        """Refuse new submissions while the store is overloaded."""
        too_many = self._waiting >= MOST_WAITING or len(self._queues.get(tenant_id, ())) >= MOST_OF_ONE
        if too_many or monotonic() - self._since.get(tenant_id, float("inf")) > OVERLOADED_AFTER:
            raise Overloaded("the database is overloaded", remedy="retry in a moment")

    async def _store_queue(self, tenant_id: int, queue: deque[_Waiting]) -> None:
        await asyncio.sleep(0)  # include everything submitted in the same event loop iteration
        while queue:
            batch = [queue.popleft() for _ in range(min(len(queue), MOST_TOGETHER))]
            self._waiting -= len(batch)
            self._since[tenant_id] = monotonic()
            try:
                await self._store_batch(tenant_id, batch)
            finally:
                del self._since[tenant_id]
        del self._queues[tenant_id]

    async def _store_batch(self, tenant_id: int, batch: Sequence[_Waiting]) -> None:
        try:
            answers = await self._submit(tenant_id, [waiting.job for waiting in batch])
        except ABOUT_ONE_JOB as error:
            if len(batch) == 1:
                _refuse(batch, error)
                return
            for waiting in batch:
                await self._store_batch(tenant_id, [waiting])
        except Exception as error:
            _refuse(batch, error)
        else:
            for waiting, answer in zip(batch, answers, strict=True):
                if not waiting.answer.done():
                    waiting.answer.set_result(answer)

    async def _submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        storing = asyncio.ensure_future(self._store.submit(tenant_id, jobs))
        done, _ = await asyncio.wait((storing,), timeout=TIMEOUT)
        if not done:
            # Storing continues after the timeout: a caller that retries finds the job by its idempotency key.
            storing.add_done_callback(retrieve_error)
            raise Overloaded("the database did not answer in time", remedy="retry with the same idempotency key")
        return storing.result()


def _refuse(batch: Sequence[_Waiting], error: Exception) -> None:
    for waiting in batch:
        if not waiting.answer.done():
            waiting.answer.set_exception(error)

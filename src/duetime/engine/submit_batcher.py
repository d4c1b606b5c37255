"""The submit batcher: single submissions that arrive together are stored in one transaction.

While a transaction of a tenant is in progress, further jobs of that tenant queue up, and the next transaction stores
them. So a single caller does not wait, and under load one commit serves many callers. When the store refuses a batch
because of one of its jobs, the jobs are stored one by one, so that each caller gets its own answer.

The queue is bounded, for each tenant and in all. When it is full, or when the store has not answered a tenant for too
long, callers of that tenant are refused at once (`Overloaded`). One tenant's queue does not count against another.

Jobs that go to a stream have a queue of their own: a broker that does not answer delays no job that goes to the store.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from duetime.clock import monotonic
from duetime.engine.key_wait import KeyWait
from duetime.errors import Conflict, InvalidInput, KeyInFlight, NotFound, Overloaded, QuotaExceeded, StoreRejected
from duetime.model.job import NewJob, Submitted
from duetime.process.loop import retrieve_error
from duetime.store.protocol.store import Store
from duetime.streams.publisher import RETRIED

ABOUT_ONE_JOB = (InvalidInput, NotFound, Conflict, StoreRejected, QuotaExceeded)
"""Errors about one of the jobs in a batch: the others can be stored without it. Where a batch exceeds a quota, some of
its jobs can be stored."""
MOST_TOGETHER = 500
MOST_WAITING = 20_000
MOST_OF_ONE = MOST_WAITING // 2
"""How many jobs of one tenant may wait."""
LONGEST_WAIT = 2.0
"""Seconds: a transaction that takes longer means that the database has fallen behind."""
LONGEST_PUBLISH = RETRIED + 1.0
"""The same for a publish, which is retried."""
_TURNS = 8
"""Turns of the event loop between publishes while there are many callers. A broker answers so fast that one or two jobs
would be published together, and a publish of one costs as much as one of many."""
ANSWER_TIMEOUT = 10.0
"""Seconds after which callers get an error. The transaction goes on: a caller that asks again finds its job by the
idempotency key."""


_Way = tuple[int, str | None]
"""A tenant, and its queue if the jobs go to the stream of one."""


class _Waiting(NamedTuple):
    job: NewJob
    answer: asyncio.Future[Submitted]


def _no_stream(tenant_id: int, job: NewJob) -> str | None:
    """The default of `stream_of`: no job goes to a stream."""


class SubmitBatcher:
    def __init__(self, store: Store, stream_of: Callable[[int, NewJob], str | None] = _no_stream) -> None:
        """`stream_of` says which stream queue of a tenant a job goes to, if any."""
        self._store = store
        self._stream_of = stream_of
        self._queues: dict[_Way, deque[_Waiting]] = {}
        """The waiting jobs of each way (tenant, and stream queue if any) that has a transaction or publish in
        progress."""
        self._waiting = 0
        self._of_tenants: Counter[int] = Counter()
        """How many jobs of each tenant wait."""
        self._since: dict[_Way, float] = {}
        """When the transaction or publish in progress began."""
        self._tasks: set[asyncio.Task[Any]] = set()

    async def submit(self, tenant_id: int, job: NewJob) -> Submitted:
        """Store a job, in one transaction with others that arrive now. A job whose `key` another transaction holds
        waits for its turn; the others of its batch do not."""
        wait = KeyWait()
        while True:
            way = tenant_id, self._stream_of(tenant_id, job)
            self._check(way)
            answer: asyncio.Future[Submitted] = asyncio.get_running_loop().create_future()
            queue = self._queues.get(way)
            if queue is None:
                queue = self._queues[way] = deque()
                self._keep(asyncio.create_task(self._store_queue(way, queue)))
            queue.append(_Waiting(job, answer))
            self._waiting += 1
            self._of_tenants[tenant_id] += 1
            try:
                return await answer
            except KeyInFlight as error:
                await wait.turn(error)

    async def submit_all(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Store all of these jobs or none, in one transaction. What goes to streams is published after it."""
        for way in {(tenant_id, self._stream_of(tenant_id, job)) for job in jobs}:
            self._check(way)
        wait = KeyWait()
        while True:
            try:
                return await self._store_jobs(tenant_id, jobs)
            except KeyInFlight as error:
                await wait.turn(error)
            except TimeoutError:
                raise _no_answer() from None

    def _check(self, way: _Way) -> None:
        """Refuse more jobs while the store, or the broker, is behind."""
        tenant_id, stream = way
        too_many = self._waiting >= MOST_WAITING or self._of_tenants[tenant_id] >= MOST_OF_ONE
        longest = LONGEST_WAIT if stream is None else LONGEST_PUBLISH
        if too_many or monotonic() - self._since.get(way, float("inf")) > longest:
            behind = "database" if stream is None else "broker of the queue"
            raise Overloaded(f"the {behind} has fallen behind", remedy="ask again in a moment")

    async def _store_jobs(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Store jobs. After `ANSWER_TIMEOUT` it raises `TimeoutError`, but the transaction goes on."""
        storing = asyncio.create_task(self._store.intake.submit(tenant_id, jobs))
        storing.add_done_callback(retrieve_error)
        self._keep(storing)
        if not (await asyncio.wait((storing,), timeout=ANSWER_TIMEOUT))[0]:
            raise TimeoutError
        return storing.result()

    def _keep(self, task: asyncio.Task[Any]) -> None:
        """Hold a reference to the task until it has ended: an event loop holds only weak ones."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _store_queue(self, way: _Way, queue: deque[_Waiting]) -> None:
        tenant_id, stream = way
        turns = 1  # jobs that arrive in the same turn of the event loop join the first batch
        while queue:
            for _ in range(turns):
                await asyncio.sleep(0)
            turns = 1 if stream is None else _TURNS
            batch = [queue.popleft() for _ in range(min(len(queue), MOST_TOGETHER))]
            self._waiting -= len(batch)
            self._of_tenants[tenant_id] -= len(batch)
            self._since[way] = monotonic()
            parts = [batch]
            while parts:
                part = parts.pop()
                try:
                    answers = await self._store_jobs(tenant_id, [waiting.job for waiting in part])
                except Exception as error:
                    if len(part) > 1 and isinstance(error, ABOUT_ONE_JOB):
                        parts = [[waiting] for waiting in reversed(part)]
                    else:
                        _refuse(part, _no_answer() if isinstance(error, TimeoutError) else error)
                else:
                    for waiting, answer in zip(part, answers, strict=True):
                        if not waiting.answer.done():
                            waiting.answer.set_result(answer)
            del self._since[way]
        del self._queues[way]
        if not self._of_tenants[tenant_id]:
            del self._of_tenants[tenant_id]


def _no_answer() -> Overloaded:
    return Overloaded("the database did not answer in time", remedy="ask again with the same idempotency key or nonce")


def _refuse(batch: Sequence[_Waiting], error: Exception) -> None:
    for waiting in batch:
        if not waiting.answer.done():
            waiting.answer.set_exception(error)

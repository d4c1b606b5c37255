"""Reports of many remote workers, stored together: while a few transactions are in progress, the next batch collects.

One commit for each of two hundred workers would occupy every connection, and the dealer would wait behind them. So only
a few of these transactions run at a time, and they grow with the load. A batch that the database refuses is retried
report by report, so that a bad one affects no other.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from duetime.errors import StoreRejected
from duetime.model.attempt import Completion
from duetime.store.protocol.store import Completed, Store

_AT_ONCE = 2
_MOST_REPORTS = 50
_MOST_COMPLETIONS = 1000


class _Report(NamedTuple):
    worker_id: UUID
    completions: Sequence[Completion]
    closed: Sequence[int]
    answer: asyncio.Future[Completed]


class Reports:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[_Report] = deque()
        self._senders: set[asyncio.Task[None]] = set()

    async def complete(self, worker_id: UUID, completions: Sequence[Completion], closed: Sequence[int]) -> Completed:
        report = _Report(worker_id, completions, closed, asyncio.get_running_loop().create_future())
        self._waiting.append(report)
        if len(self._senders) < _AT_ONCE:
            sender = asyncio.create_task(self._send(), name="duetime reports")
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        return await asyncio.shield(report.answer)

    async def _send(self) -> None:
        while self._waiting:
            batch = self._next_batch()
            try:
                answers = await self._store.completions.complete_many([report[:3] for report in batch])
            except StoreRejected:
                await self._send_one_by_one(batch)
            except Exception as error:
                for report in batch:
                    _fail(report, error)
            else:
                for report, refused in zip(batch, answers, strict=True):
                    if not report.answer.done():
                        report.answer.set_result(Completed(refused))

    async def _send_one_by_one(self, batch: Sequence[_Report]) -> None:
        for report in batch:
            try:
                answer = await self._store.completions.complete(report.worker_id, report.completions, report.closed)
            except Exception as error:
                _fail(report, error)
            else:
                if not report.answer.done():
                    report.answer.set_result(answer)

    def _next_batch(self) -> list[_Report]:
        batch, count = [self._waiting.popleft()], 0
        while self._waiting and len(batch) < _MOST_REPORTS:
            count += len(batch[-1].completions)
            if count >= _MOST_COMPLETIONS:
                break
            batch.append(self._waiting.popleft())
        return batch


def _fail(report: _Report, error: Exception) -> None:
    if not report.answer.done():
        report.answer.set_exception(error)
        report.answer.exception()  # the reporter may be gone

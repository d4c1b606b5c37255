"""Completions on their way to the store: batched, fenced, and kept until the store has answered.

While one batch is in progress the next one collects, so batches grow with the load and a single completion waits for no
other. A batch that the database refuses is halved until the faulty row is alone. That one is sent without its log or
its result, and says so. It is reported as failed only if it is still refused. While the database is unavailable the
completer retries: completed work is never discarded.

Runs that have not started and are given back go the same way, before the completions that close their claims.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from math import inf
from typing import NamedTuple
from uuid import UUID

import msgspec

from duetime.clock import monotonic
from duetime.errors import StoreRejected, StoreUnavailable, reason_of
from duetime.ids import show
from duetime.model.attempt import AttemptState, Completion
from duetime.model.failure import FailureClass
from duetime.model.retry import Verdict
from duetime.model.run import Event
from duetime.process.loop import retry_until_available
from duetime.worker.attempt_log import with_line
from duetime.worker.session import Session
from duetime.worker.source import Source

log = logging.getLogger("duetime.worker")

BATCH = 1000
_FAIL = Verdict(Event.FAIL)
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0

Answered = Callable[[bool], None]
"""Called with whether the task's own transaction was committed."""
_Apart = tuple[Session, Completion, list[int], Answered]
"""A completion that is sent separately, and the claims that it closes."""
_Answers = Mapping[UUID, Answered]
_NOT_APART: _Answers = {}


class _Batch(NamedTuple):
    """What one session has to send."""

    since: float
    """When the first of it was added."""
    completions: list[Completion]
    closed: list[int]
    """Claims that have no runs left."""
    given_back: list[tuple[UUID, int]]


class Completer:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._waiting: dict[Session, _Batch] = {}
        self._sending_since = inf
        self._awake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._apart: dict[UUID, _Apart] = {}
        self._another_apart = asyncio.Event()
        self._sending_apart: asyncio.Task[None] | None = None
        self.backlog = 0
        self.completed = 0
        self.refused = 0

    def add(self, session: Session, completion: Completion, claim_no: int, *, apart: Answered | None = None) -> None:
        """With `apart`, the task has completed the run in its own transaction, which may still lock its row. This
        completion is sent once that transaction has ended, and takes effect only if it was rolled back."""
        if apart is not None:
            closed = [claim_no] if claim_no and session.ended(claim_no) else []
            self._apart[completion.run_id] = (session, completion, closed, apart)
            self._another_apart.set()
            if self._sending_apart is None or self._sending_apart.done():
                self._sending_apart = asyncio.create_task(self._send_apart())
            return
        self._next(session, claim_no).completions.append(completion)

    def give_back(self, session: Session, run_id: UUID, fence: int, claim_no: int) -> None:
        """Let a run that has not started wait again, as if it had not been claimed."""
        self._next(session, claim_no).given_back.append((run_id, fence))

    def _next(self, session: Session, claim_no: int) -> _Batch:
        """Count the end of one more run, and return the batch that it goes into."""
        batch = self._waiting.get(session)
        if batch is None:
            batch = self._waiting[session] = _Batch(monotonic(), [], [], [])
        if claim_no and session.ended(claim_no):
            batch.closed.append(claim_no)
        self.backlog += 1
        if self.backlog == 1:
            self._idle.clear()
            self._awake.set()
        return batch

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._awake.wait()
            self._awake.clear()
            while self._waiting:
                session = next(iter(self._waiting))
                self._sending_since, completions, closed, given_back = self._waiting.pop(session)
                if given_back:
                    await self._hand_back(session.id, given_back)
                for start in range(0, len(completions), BATCH):
                    batch = completions[start : start + BATCH]
                    last = start + BATCH >= len(completions)
                    await self._send(session.id, batch, closed if last else [], apart=_NOT_APART)
                    self.backlog -= len(batch)
                if closed and not completions:
                    await self._send(session.id, [], closed, apart=_NOT_APART)
                session.closed(closed)
            self._sending_since = inf
            self._idle.set()

    @property
    def answered_until(self) -> float:
        """A moment: everything added before it has been answered, except for what is sent separately."""
        return min(self._sending_since, *(batch.since for batch in self._waiting.values()), inf)

    @property
    def apart(self) -> Collection[UUID]:
        """The runs whose completions are sent separately and have not been answered."""
        return self._apart.keys()

    async def drained(self) -> None:
        """Wait until everything added so far has been answered."""
        await self._idle.wait()
        if self._sending_apart is not None:
            await asyncio.wait([self._sending_apart])

    async def _send_apart(self) -> None:
        """Send the separate completions until none is left. Runs that a transaction still locks are polled: a
        completion that waits in the database would occupy a connection."""
        pause = _FIRST_PAUSE
        while self._apart:
            self._another_apart.clear()
            free = await self._free_of(dict(self._apart))
            for session in {session for session, *_ in free}:
                own = [entry for entry in free if entry[0] is session]
                closed = [claim_no for _, _, claim_nos, _ in own for claim_no in claim_nos]
                apart = {item.run_id: answered for _, item, _, answered in own}
                await self._send(session.id, [item for _, item, _, _ in own], closed, apart=apart)
                session.closed(closed)
                for run_id in apart:
                    del self._apart[run_id]
            if self._apart:
                pause = min(_LONGEST_PAUSE, pause * 2)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._another_apart.wait()
                        pause = _FIRST_PAUSE

    async def _free_of(self, apart: dict[UUID, _Apart]) -> list[_Apart]:
        try:
            held = await self._source.held_in_transactions(list(apart))
        except StoreUnavailable:
            return []
        return [entry for run_id, entry in apart.items() if run_id not in held][:BATCH]

    async def _hand_back(self, worker_id: UUID, runs: list[tuple[UUID, int]]) -> None:
        for start in range(0, len(runs), BATCH):
            part = runs[start : start + BATCH]
            try:
                await retry_until_available(partial(self._source.hand_back, worker_id, part))
            except StoreRejected as error:
                log.error("%d runs cannot be given back, the reaper will free them: %s", len(part), reason_of(error))
            self.backlog -= len(part)

    async def _send(self, worker_id: UUID, batch: list[Completion], closed: list[int], *, apart: _Answers) -> None:
        try:
            await self._send_whole(worker_id, batch, closed, apart=apart)
        except StoreRejected as error:
            await self._bisect(worker_id, batch, closed, error, apart=apart)

    async def _send_whole(
        self, worker_id: UUID, batch: list[Completion], closed: list[int], *, apart: _Answers
    ) -> None:
        backoff = 0.05
        while True:
            try:
                answer = await self._source.complete(worker_id, batch, closed)
                break
            except StoreUnavailable as error:
                log.warning("%d completions wait for the database: %s", len(batch), reason_of(error))
                await asyncio.sleep(backoff)
                backoff = min(2.0, backoff * 2)
        # If the task's transaction was committed, the run has already ended.
        refused = answer.refused - answer.over if apart else answer.refused
        self.completed += len(batch) - len(refused)
        self.refused += len(refused)
        for run_id in refused:
            log.info("%s: its completion was refused: another worker holds it, or it has ended", show("run", run_id))
        if apart:
            for item in batch:
                if item.run_id not in refused:
                    apart[item.run_id](item.run_id in answer.over)

    async def _bisect(
        self, worker_id: UUID, batch: list[Completion], closed: list[int], error: StoreRejected, *, apart: _Answers
    ) -> None:
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._send(worker_id, batch[:middle], [], apart=apart)
            await self._send(worker_id, batch[middle:], closed, apart=apart)
            return
        (item,) = batch
        log.error("%s: the database refused its outcome: %s", show("run", item.run_id), reason_of(error))
        for less in _less_of(item, error):
            try:
                await self._send_whole(worker_id, [less], closed, apart=apart)
                return
            except StoreRejected as another:
                error = another
        log.error(
            "%s: its completion cannot be stored, the reaper will free it: %s",
            show("run", item.run_id),
            reason_of(error),
        )


def _less_of(item: Completion, error: StoreRejected) -> Iterator[Completion]:
    """Reduced versions of a refused completion, from the most complete to the least. The task's work is done, even if
    not all of it can be recorded."""
    if item.logs is not None:
        yield msgspec.structs.replace(item, logs=with_line(None, f"the log was dropped: {error}"))
    if item.result is not None:
        yield msgspec.structs.replace(item, result=None, logs=with_line(item.logs, f"the result was dropped: {error}"))
    if item.logs is not None and item.result is not None:
        yield msgspec.structs.replace(
            item, result=None, logs=with_line(None, f"the log and the result were dropped: {error}")
        )
    text = "the database refused to store its outcome"
    yield Completion(item.run_id, item.fence, _FAIL, AttemptState.FAILED, FailureClass.ERROR, text)

"""Executors: each runs attempts in one place, from the arguments to the outcome.

For each started attempt, `finished` is called exactly once, on the event loop, when the attempt has really ended. An
attempt that was asked to stop ends with the outcome of the stop reason, whatever the function did.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import Context as CopiedContext
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from duetime.model.attempt import Claimed
from duetime.model.completion import PLAIN
from duetime.model.failure import Failure, FailureClass
from duetime.model.outcome import Failed, Outcome, Snooze
from duetime.worker import outcomes
from duetime.worker.backlog import GIVEN_BACK, LONGEST_WAIT, STOPPED
from duetime.worker.context import Context, current
from duetime.worker.middleware import call_around
from duetime.worker.prefetch import Prefetch
from duetime.worker.progress_reports import ProgressReports
from duetime.worker.running_attempt import Running
from duetime.worker.source import Source

Finished = Callable[[Running, Outcome], None]


class Executor(Protocol):
    def start(self, running: Running) -> None: ...

    def stop(self, running: Running) -> None:
        """Ask the attempt to stop, as far as its place allows; `running.stop` is the reason."""

    def close(self) -> None:
        """Release the executor's resources; attempts in progress are abandoned."""


_AT_ONCE = timedelta(0)
_RUNS_A_TURN = 50
"""How many runs one runner starts before it yields to the event loop."""
_MOST_AHEAD = 1_000


class LoopExecutor:
    """Runs async functions on the event loop.

    A runner is an asyncio task that takes one run after the other. A run that never waits ends at once, and the next
    starts without its own task and loop iteration, which would cost more than all the rest. While runs are queued,
    another runner stands by to take over when a run waits: then each run has its own runner.

    No more runs are in progress than there are slots. A few more are queued where they are short. Runs that do not
    start soon, because longer ones came in between, are handed back for other workers. The queue is a plain one, not
    `backlog.py`: only the event loop takes from it, and a lock and a timestamp for each run would cost more than they
    are worth.
    """

    def __init__(
        self,
        size: int,
        source: Source,
        notes: ProgressReports,
        finished: Finished,
        claim_ahead: Callable[[int], None],
        max_result: int,
        must_wait: Callable[[Running], bool] = lambda _: False,
    ) -> None:
        self._size = size
        self._source = source
        self._prefetch = Prefetch(size, _MOST_AHEAD, claim_ahead)
        self._must_wait = must_wait
        self._progress_reports = notes
        self._finished = finished
        self._max_result = max_result
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Running] = deque()
        self._busy = 0
        """How many runners have a run."""
        self._last_seen: Running | None = None
        """The last run in the queue at the previous check."""
        self._watch: asyncio.TimerHandle | None = None
        self._runners: set[asyncio.Task[None]] = set()
        self._one_stands_by = False
        self._make_context = self._new_context  # bound once, not for each run
        self._complete = self._complete_within

    def start(self, running: Running) -> None:
        running.make_context = self._make_context
        self._queue.append(running)
        if not self._one_stands_by:
            self._stand_by()
        if self._watch is None:
            self._watch = self._loop.call_later(LONGEST_WAIT, self._check)

    def stop(self, running: Running) -> None:
        if running.task is not None:
            running.task.cancel()
            return
        try:
            self._queue.remove(running)
        except ValueError:
            return  # it has ended
        self._loop.call_soon(self._finished, running, STOPPED)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    def _check(self) -> None:
        """Hand back the runs that were queued at the previous check and have not started because all runners are
        busy."""
        late, last = [], self._last_seen
        if self._busy >= self._size and last is not None and last in self._queue:
            late = [self._queue.popleft() for _ in range(self._queue.index(last) + 1)]
            self._prefetch.reset()
        self._last_seen = self._queue[-1] if self._queue else None
        self._watch = self._loop.call_later(LONGEST_WAIT, self._check) if self._queue else None
        for running in late:
            self._finished(running, GIVEN_BACK)

    def _stand_by(self) -> None:
        self._one_stands_by = True
        runner = self._loop.create_task(self._serve())
        self._runners.add(runner)
        runner.add_done_callback(self._runners.discard)

    async def _serve(self) -> None:
        """Take runs from the queue while this runner is indistinguishable from a new one."""
        self._one_stands_by = False
        if not self._queue or self._busy >= self._size:
            return  # the next runner that becomes free takes the run
        runner = asyncio.current_task()
        assert runner is not None
        untouched = copy_context()
        plain = 0
        self._busy += 1
        try:
            for _ in range(_RUNS_A_TURN):
                running = self._queue.popleft()
                if self._queue and not self._one_stands_by:
                    self._stand_by()
                await self._attempt(running, runner)
                if running.claimed.options is None:
                    plain += 1
                else:
                    self._prefetch.ended(running)
                if not self._queue or runner.cancelling() or not _same(copy_context(), untouched):
                    break
        finally:
            self._busy -= 1
        self._prefetch.plain_ended(plain)
        if self._queue and not self._one_stands_by:
            self._stand_by()

    async def _attempt(self, running: Running, runner: asyncio.Task[None]) -> None:
        definition = running.definition
        token = current.set(running.context)
        running.task = runner
        try:
            if running.stop is not None:
                raise asyncio.CancelledError
            if self._must_wait(running):
                raise Snooze(_AT_ONCE)
            if self._busy >= self._size:
                running.begin_in_time()  # it may have waited for other runs
            running.begun = True
            if running.span is None and not definition.around:
                value = await definition.call(running.claimed.args, running.context)
            else:
                with nullcontext() if running.span is None else running.span.active():
                    call = partial(definition.call, running.claimed.args, running.context)
                    value = await call_around(definition.around, running.context(), call)
            context = running.context_if_made
            if isinstance(context, Context) and context.completed_in_transaction:
                outcome: Outcome = _not_committed()
            elif value is None and definition.returns_none:
                outcome = PLAIN
            else:
                outcome = outcomes.from_value(value, definition, running.attempt_log, self._max_result)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            running.error = error
            outcome = outcomes.from_exception(error)
        finally:
            running.task = None  # a stop that comes now must not hit the runner's next run
            current.reset(token)
        self._finished(running, outcome)

    def _new_context(self, running: Running) -> Context:
        lane, worker_id = running.lane, running.session.id
        return Context(
            running.claimed,
            worker_id,
            lane.task,
            lane.queue,
            running.attempt_log,
            self._progress_reports,
            self._complete,
            running.definition.encode_result,
        )

    async def _complete_within(
        self, connection: Any, worker_id: UUID, claimed: Claimed, result: bytes | None, logs: bytes | None
    ) -> None:
        await self._source.complete_within(connection, worker_id, claimed.run_id, claimed.fence, result, logs)


def _same(one: CopiedContext, other: CopiedContext) -> bool:
    """Whether no variable was changed; a value that cannot be compared counts as changed."""
    try:
        return one == other
    except Exception:
        return False


def _not_committed() -> Outcome:
    """A run that the task completed is gone from the store, which refuses this outcome. If the run is still there, the
    task's transaction was rolled back, and its effect with it."""
    return Failed(Failure(FailureClass.ERROR, "the run was completed inside a transaction that did not commit"))

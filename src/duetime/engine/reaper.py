"""The reaper frees the runs of lost workers. It runs on every node, all the time.

A worker is lost when its lease has expired or its row is missing, never because a run is old. A clock that steps
forward would make every lease look expired at once, so the reaper asks the guard first (`clock_guard.py`).

The worker enforces timeouts, by monotonic time. A worker whose event loop hangs keeps its lease but enforces no
timeout, so the reaper also takes long-overdue runs from live workers. If an expired lease was renewed, timeouts count
from that renewal.

It also ends waiting runs that have expired (`expires_in`), so that they end while no worker claims them, too.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta
from random import Random

from duetime.engine.clock_guard import ClockGuard
from duetime.ids import show
from duetime.model.attempt import AttemptState, Completion
from duetime.model.failure import Failure, FailureClass
from duetime.model.job import decode_options
from duetime.model.outcome import Failed
from duetime.model.retry import Verdict, decide, decide_lost
from duetime.model.run import Event
from duetime.model.worker import Lost
from duetime.store.protocol.store import Store
from duetime.store.rules.completions import CANCELLED_BY_REQUEST

log = logging.getLogger("duetime.reaper")

_OVERDUE = timedelta(seconds=30)
_random = Random()


class Reaper:
    def __init__(
        self,
        store: Store,
        *,
        lease: timedelta,
        interval: timedelta = timedelta(seconds=1),
        batch: int = 100,
        guard: ClockGuard | None = None,
    ) -> None:
        self._store = store
        self._guard = guard or ClockGuard(store, lease=lease)
        self._interval = interval.total_seconds()
        # A lease does not reveal a clock step shorter than itself, and a thread may get one more lease to stop.
        self._overdue = max(_OVERDUE, 2 * lease)
        self._batch = batch

    async def tick(self) -> float:
        if not await self._guard.may_judge_leases():
            return self._interval
        reaped = await self._store.reaping.reap(self._batch, judge, self._overdue)
        if reaped:
            log.warning("freed %d runs whose worker was lost or overdue", reaped)
        return 0.0 if reaped >= self._batch else self._interval


def judge(lost: Sequence[Lost]) -> list[Completion]:
    """Decide the result of each run that lost its worker, or that its worker did not stop in time."""
    return [_judge(run) for run in lost]


def _judge(run: Lost) -> Completion:
    if run.late is not None:
        return Completion(run.run_id, run.fence, Verdict(Event.SKIP), AttemptState.SKIPPED, error=run.late)
    options = decode_options(run.options)
    if run.cancel_requested:
        return Completion(
            run.run_id,
            run.fence,
            Verdict(Event.CANCEL),
            AttemptState.CANCELLED,
            FailureClass.CANCELLED,
            CANCELLED_BY_REQUEST if run.handed_over else f"{CANCELLED_BY_REQUEST}; {_fate(run)}",
        )
    if run.timed_out:
        text = f"the run exceeded its timeout ({run.ran_for.total_seconds():.1f} s) and its worker did not stop it"
        if run.handed_over:
            text = f"the receiver did not complete it in time: {run.ran_for.total_seconds():.1f} s after it started"
        failure = Failure(FailureClass.TIMEOUT, text)
        verdict = decide(Failed(failure), options.retry, run.attempt, _random)
        if options.at_most_once:
            verdict = Verdict(Event.FAIL)
        return Completion(run.run_id, run.fence, verdict, AttemptState.FAILED, FailureClass.TIMEOUT, text)
    verdict = decide_lost(options.retry, run.lost + 1, at_most_once=options.at_most_once)
    text = _fate(run)
    if verdict.event is Event.FAIL:
        text += "; the job runs at most once" if options.at_most_once else f" {run.lost + 1} times"
    log.debug("%s: %s", show("run", run.run_id), text)
    return Completion(run.run_id, run.fence, verdict, AttemptState.LOST, FailureClass.LOST, text)


def _fate(run: Lost) -> str:
    return "its worker no longer held the run" if run.not_held else "its worker was lost"

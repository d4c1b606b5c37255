"""How a worker reports failed attempts: a record in its log, and a call of the app's `on_failure` hooks.

Neither can harm the worker. The log names the task, the run and the next step, never the arguments. Of a target's
answer it shows only the status, because the log belongs to the operator and not to the tenant. Hooks are called one
after the other, concurrently with the runs. A hook that fails or takes too long is logged. When hooks cannot keep up,
the newest failures are only logged.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from duetime.errors import reason_of
from duetime.ids import show
from duetime.model.attempt import AttemptState, Claimed, Completion
from duetime.model.failure import TRACEBACK_LIMIT, Failure, FailureClass, bounded
from duetime.model.lane import LaneKey
from duetime.model.outcome import Failed, Outcome
from duetime.model.run import Event

log = logging.getLogger("duetime.worker")

MOST_WAITING = 1_000
HOOK_TIMEOUT = 30.0
_CLOSE_DEADLINE = 5.0
_RETRIED = (Event.RETRY, Event.RELEASE)


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """The argument of an `on_failure` hook: which attempt failed, how, and what happens next."""

    task: str
    queue: str
    tenant_id: int
    """0 in a remote worker, whose key determines the tenant."""
    job_id: str
    run_id: str
    attempt: int
    """The first is 1. Attempts whose worker was lost are not counted."""
    failure: FailureClass
    message: str
    """The exception's class and text, or the target's answer."""
    retried: bool
    """Whether the run is retried; otherwise it is a dead letter."""
    retry_in: timedelta | None
    error: BaseException | None = field(default=None, repr=False)
    """The exception, where the function ran in this process."""
    traceback: str | None = field(default=None, repr=False)
    """Its traceback as text, also from a child process."""


FailureHook = Callable[[FailedAttempt], Awaitable[object]]


class Failures:
    def __init__(self, hooks: Sequence[FailureHook]) -> None:
        self._hooks = hooks
        self._waiting: deque[FailedAttempt] = deque()
        self._left_out = 0
        self._calling: asyncio.Task[None] | None = None

    def report(
        self,
        claimed: Claimed,
        lane: LaneKey,
        completion: Completion,
        outcome: Outcome,
        *,
        error: BaseException | None = None,
        by_target: bool = False,
    ) -> None:
        """Report an attempt, if it failed."""
        if completion.attempt_state is not AttemptState.FAILED:
            return
        failure = outcome.failure if isinstance(outcome, Failed) else None
        retried = completion.verdict.event in _RETRIED
        traceback = (
            None if failure is None or failure.traceback is None else bounded(failure.traceback, TRACEBACK_LIMIT)
        )
        failed = FailedAttempt(
            task=lane.task,
            queue=lane.queue,
            tenant_id=lane.tenant_id,
            job_id=show("job", claimed.job_id),
            run_id=show("run", claimed.run_id),
            attempt=claimed.attempt,
            failure=completion.failure or FailureClass.ERROR,
            message=_message(failure, completion),
            retried=retried,
            retry_in=completion.verdict.delay if retried else None,
            error=error,
            traceback=None if traceback is None else bounded(traceback, TRACEBACK_LIMIT),
        )
        _log(failed, without_answer=by_target)
        if self._hooks:
            self._call_later(failed)

    async def close(self) -> None:
        """Wait briefly until the hooks have received everything."""
        if self._calling is not None:
            await asyncio.wait([self._calling], timeout=_CLOSE_DEADLINE)
            self._calling.cancel()

    def _call_later(self, failed: FailedAttempt) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._left_out += 1
            return
        self._waiting.append(failed)
        if self._calling is None or self._calling.done():
            self._calling = asyncio.get_running_loop().create_task(self._call(), name="duetime on_failure")

    async def _call(self) -> None:
        while self._waiting:
            failed = self._waiting.popleft()
            for hook in self._hooks:
                await _call_one(hook, failed)
            if self._left_out and not self._waiting:
                log.warning("on_failure was skipped for %d failures: the hooks cannot keep up", self._left_out)
                self._left_out = 0


async def _call_one(hook: FailureHook, failed: FailedAttempt) -> None:
    name = getattr(hook, "__qualname__", repr(hook))
    try:
        async with asyncio.timeout(HOOK_TIMEOUT):
            await hook(failed)
    except Exception as error:
        log.error("the on_failure hook %s failed: %s", name, reason_of(error), exc_info=error, extra=_ids(failed))


def _message(failure: Failure | None, completion: Completion) -> str:
    return (completion.error or "").partition("\n")[0] if failure is None else failure.cause


def _log(failed: FailedAttempt, *, without_answer: bool) -> None:
    if not log.isEnabledFor(logging.ERROR):
        return
    text = failed.message
    if without_answer and failed.failure is not FailureClass.NETWORK and not text.startswith("not called"):
        text = text.partition(": ")[0]
    if failed.retry_in is None:
        follows = "not retried" if not failed.retried else "retrying"
    else:
        follows = f"retrying in {failed.retry_in.total_seconds():.1f} s"
    extra = {
        **_ids(failed),
        "queue": failed.queue,
        "failure": failed.failure.label,
        "retried": failed.retried,
        "retry_in": None if failed.retry_in is None else failed.retry_in.total_seconds(),
    }
    error = failed.error
    record = log.makeRecord(
        log.name,
        logging.ERROR,
        *(__file__, 0, "%s failed, %s: %s", (failed.task, follows, text)),
        None if error is None else (type(error), error, error.__traceback__),
        extra=extra,
    )
    # Formatters use this text instead of formatting the exception again. A child process sends only the text.
    record.exc_text = failed.traceback
    log.handle(record)


def _ids(failed: FailedAttempt) -> dict[str, object]:
    """The same names as for log lines from inside an attempt."""
    ids = {"job_id": failed.job_id, "run_id": failed.run_id, "attempt": failed.attempt, "task": failed.task}
    return {**ids, "tenant_id": failed.tenant_id} if failed.tenant_id else ids

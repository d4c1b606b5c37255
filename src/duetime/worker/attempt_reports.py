"""How a worker reports ended attempts: failures in its log, and calls of the app's and the task's hooks.

Neither can harm the worker. The log names the task, the run and the next step, never the arguments. Of a target's
answer it shows only the status, because the log belongs to the operator and not to the tenant.
"""

import logging
from collections.abc import Iterable

from duetime.ids import show
from duetime.model import json
from duetime.model.attempt import AttemptState, Claimed, Completion
from duetime.model.failure import TRACEBACK_LIMIT, Failure, FailureClass, bounded
from duetime.model.lane import LaneKey
from duetime.model.outcome import Failed, Outcome
from duetime.model.run import Event
from duetime.worker.hooks import FailedAttempt, HookCalls, Hooks, SucceededAttempt
from duetime.worker.task import TaskDefinition

log = logging.getLogger("duetime.worker.attempts")

_RETRIED = (Event.RETRY, Event.RELEASE)


class AttemptReports:
    def __init__(self, hooks: Hooks, tasks: Iterable[TaskDefinition]) -> None:
        self._hooks = hooks
        self.calls = HookCalls()
        self.of_successes = bool(hooks.on_success) or any(task.hooks.on_success for task in tasks)
        """Whether anything is to be done for an attempt that succeeded."""

    def report(
        self,
        claimed: Claimed,
        lane: LaneKey,
        completion: Completion,
        outcome: Outcome,
        definition: TaskDefinition | None,
        *,
        error: BaseException | None = None,
        by_target: bool = False,
    ) -> None:
        """Report an attempt, if it succeeded or failed."""
        if completion.attempt_state is AttemptState.FAILED:
            failed = _failed(claimed, lane, completion, outcome, error)
            _log(failed, without_answer=by_target)
            self._call("on_retry" if failed.retried else "on_failure", failed, definition)
        elif completion.attempt_state is AttemptState.SUCCEEDED and self.of_successes:
            self.succeeded(claimed, lane, completion.result, definition)

    def succeeded(
        self, claimed: Claimed, lane: LaneKey, result: bytes | None, definition: TaskDefinition | None
    ) -> None:
        decode = _plain if definition is None else definition.decode_result
        self._call("on_success", SucceededAttempt(*_of(claimed, lane), result, decode), definition)

    def _call(
        self, kind: str, ended: FailedAttempt | SucceededAttempt[object], definition: TaskDefinition | None
    ) -> None:
        hooks = getattr(self._hooks, kind)
        if definition is not None:
            hooks = [*hooks, *getattr(definition.hooks, kind)]
        if hooks:
            self.calls.add(kind, hooks, ended)


def _of(claimed: Claimed, lane: LaneKey) -> tuple[str, str, int, str, str, int, bytes]:
    return (
        lane.task,
        lane.queue,
        lane.tenant_id,
        show("job", claimed.job_id),
        show("run", claimed.run_id),
        claimed.attempt,
        claimed.args if claimed.args_problem is None else b"{}",
    )


def _plain(result: bytes | None) -> object:
    return None if result is None else json.decode(result)


def _failed(
    claimed: Claimed, lane: LaneKey, completion: Completion, outcome: Outcome, error: BaseException | None
) -> FailedAttempt:
    failure = outcome.failure if isinstance(outcome, Failed) else None
    retried = completion.verdict.event in _RETRIED
    traceback = None if failure is None else failure.traceback
    return FailedAttempt(
        *_of(claimed, lane),
        failure=completion.failure or FailureClass.ERROR,
        message=_message(failure, completion),
        retried=retried,
        retry_in=completion.verdict.delay if retried else None,
        error=error,
        traceback=None if traceback is None else bounded(traceback, TRACEBACK_LIMIT),
    )


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
        **failed.ids,
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

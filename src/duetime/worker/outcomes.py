"""From what a function returned or raised to an outcome, and from an outcome to what the store is told."""

import traceback
from random import Random
from typing import Any, assert_never

from duetime.errors import InvalidInput
from duetime.model import json
from duetime.model.attempt import AttemptState, Claimed, Completion
from duetime.model.failure import Failure, FailureClass, bounded
from duetime.model.job import decode_options
from duetime.model.outcome import (
    Cancel,
    Cancelled,
    Failed,
    GiveUp,
    Outcome,
    RetryAfter,
    Signal,
    Skipped,
    Snooze,
    Snoozed,
    Succeeded,
)
from duetime.model.retry import Verdict, decide
from duetime.model.run import Event
from duetime.worker.attempt_log import AttemptLog

PLAIN = Succeeded()
_SUCCEED = Verdict(Event.SUCCEED)
_FAIL = Verdict(Event.FAIL)
_random = Random()


def from_value(value: Any, attempt_log: AttemptLog, max_result: int) -> Outcome:
    """The outcome of a function that returned."""
    if value is None:
        return PLAIN
    if isinstance(value, Signal):
        return from_exception(value)
    try:
        return Succeeded(json.encode(value, field="result", limit=max_result))
    except InvalidInput as error:
        # The work is done: doing it again because its result cannot be kept would be worse than losing the result.
        attempt_log.logger.warning("the result is not kept: %s", error)
        return PLAIN


def from_exception(error: BaseException) -> Outcome:
    """The outcome of a function that raised, or that returned a signal. Always gives one."""
    try:
        return _from_exception(error)
    except Exception as another:
        name = type(error).__name__
        return Failed(Failure(FailureClass.ERROR, f"{name}, which cannot be described: {type(another).__name__}"))


def _from_exception(error: BaseException) -> Outcome:
    match error:
        case RetryAfter():
            seconds = error.delay.total_seconds()
            return Failed(Failure(FailureClass.ERROR, bounded(error.reason, 1000), retry_after=seconds))
        case Snooze():
            return Snoozed(error.delay)
        case Cancel():
            return Cancelled(bounded(error.reason, 1000))
        case GiveUp():
            return Failed(Failure(FailureClass.GAVE_UP, bounded(error.reason, 1000)))
        case _:
            return Failed(describe(error))


def describe(error: BaseException) -> Failure:
    kinds = tuple(
        f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        for kind in type(error).__mro__
        if issubclass(kind, BaseException) and kind not in (Exception, BaseException)
    )
    try:
        message = str(error)
    except Exception:
        message = "its message cannot be shown"
    lines = traceback.format_exception(error, limit=-12)
    return Failure(FailureClass.ERROR, message, kinds or (type(error).__name__,), "".join(lines))


def timed_out(claimed: Claimed) -> Outcome:
    seconds = (claimed.timeout_ms or 0) / 1000
    return Failed(Failure(FailureClass.TIMEOUT, f"it ran for longer than its timeout of {seconds:g} s"))


def too_late(claimed: Claimed) -> Skipped | None:
    """Whether a run that was ready waited too long for a worker, by its misfire policy."""
    misfire = decode_options(claimed.options).misfire
    late = (claimed.started_at - claimed.ready_at).total_seconds()
    if misfire.mode != "skip" or late <= misfire.after or claimed.attempt > 1 or claimed.lost:
        return None
    return Skipped(f"missed: {late:.0f} s late when a worker was free")


def complete(claimed: Claimed, outcome: Outcome, logs: bytes | None) -> Completion:
    """What the store is told about this attempt. Always gives an answer: a run must not stay RUNNING for ever."""
    try:
        return _complete(claimed, outcome, logs)
    except Exception as error:
        text = f"what follows could not be decided: {type(error).__name__}: {error}"
        return Completion(
            claimed.run_id, claimed.fence, _FAIL, AttemptState.FAILED, FailureClass.ERROR, bounded(text, 1000)
        )


def _complete(claimed: Claimed, outcome: Outcome, logs: bytes | None) -> Completion:
    if outcome is PLAIN:
        return Completion(claimed.run_id, claimed.fence, _SUCCEED, AttemptState.SUCCEEDED, logs=logs)
    options = decode_options(claimed.options)
    verdict = decide(outcome, options.retry, claimed.attempt, _random)
    match outcome:
        case Succeeded(result):
            return Completion(claimed.run_id, claimed.fence, verdict, AttemptState.SUCCEEDED, result=result, logs=logs)
        case Failed(failure):
            return Completion(
                claimed.run_id,
                claimed.fence,
                verdict,
                AttemptState.FAILED,
                failure.kind,
                failure.text,
                logs=logs,
            )
        case Snoozed():
            return Completion(claimed.run_id, claimed.fence, verdict, AttemptState.SNOOZED, logs=logs)
        case Cancelled(reason):
            return Completion(
                claimed.run_id,
                claimed.fence,
                verdict,
                AttemptState.CANCELLED,
                FailureClass.CANCELLED,
                reason,
                logs=logs,
            )
        case Skipped(reason):
            return Completion(claimed.run_id, claimed.fence, verdict, AttemptState.SKIPPED, error=reason)
        case _:
            assert_never(outcome)

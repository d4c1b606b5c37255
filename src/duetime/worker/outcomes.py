"""Converts what a function returned or raised to an outcome."""

import traceback
from typing import Any

from duetime.errors import reason_of
from duetime.model import json
from duetime.model.completion import PLAIN
from duetime.model.failure import Failure, FailureClass, bounded
from duetime.model.outcome import (
    Cancel,
    Cancelled,
    Failed,
    GiveUp,
    Outcome,
    RetryAfter,
    Signal,
    Snooze,
    Snoozed,
    Succeeded,
)
from duetime.worker.attempt_log import AttemptLog
from duetime.worker.task import TaskDefinition


def from_value(value: Any, definition: TaskDefinition, attempt_log: AttemptLog, max_result: int) -> Outcome:
    """The outcome of a function that returned. Raises `InvalidInput` for a result that has no JSON form, or does not
    fit its annotation: a caller that waits for it must not get something else."""
    if value is None and definition.returns_none:
        return PLAIN
    if isinstance(value, Signal):
        return from_exception(value)
    body = definition.encode_result(value)
    if len(body) > max_result:
        # The work is done: repeating it because its result is too large would be worse than losing the result.
        error = json.too_large(len(body), "result", max_result)
        attempt_log.logger.warning("the result was dropped: %s", reason_of(error))
        return PLAIN
    return Succeeded(body)


def from_exception(error: BaseException) -> Outcome:
    """The outcome of a function that raised, or that returned a signal. It never raises."""
    try:
        return _from_exception(error)
    except Exception as another:
        name = type(error).__name__
        return Failed(Failure(FailureClass.ERROR, f"{name} (describing it raised {type(another).__name__})"))


def _from_exception(error: BaseException) -> Outcome:
    match error:
        case RetryAfter():
            seconds = error.delay.total_seconds()
            # `raise RetryAfter(…) from error`: the reader of the attempt needs the traceback of the error.
            trace = None if error.__cause__ is None else describe(error.__cause__).traceback
            return Failed(Failure(FailureClass.ERROR, bounded(error.reason, 1000), (), trace, retry_after=seconds))
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
        message = "its message cannot be read"
    lines = traceback.format_exception(error, limit=-12)
    return Failure(FailureClass.ERROR, message, kinds or (type(error).__name__,), "".join(lines))

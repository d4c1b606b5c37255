"""Converts what a function returned or raised to an outcome."""

import traceback
from typing import Any

from duetime.errors import InvalidInput, reason_of
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


def from_value(value: Any, attempt_log: AttemptLog, max_result: int) -> Outcome:
    """The outcome of a function that returned."""
    if value is None:
        return PLAIN
    if isinstance(value, Signal):
        return from_exception(value)
    try:
        return Succeeded(json.encode(value, field="result", limit=max_result))
    except InvalidInput as error:
        # The work is done: repeating it because its result cannot be stored would be worse than losing the result.
        attempt_log.logger.warning("the result was dropped: %s", reason_of(error))
        return PLAIN


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
        message = "its message cannot be read"
    lines = traceback.format_exception(error, limit=-12)
    return Failure(FailureClass.ERROR, message, kinds or (type(error).__name__,), "".join(lines))

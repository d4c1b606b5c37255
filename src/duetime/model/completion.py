"""Converts the outcome of an attempt to a completion: the same wherever the attempt was made."""

from datetime import timedelta
from random import Random
from typing import assert_never

import msgspec

from duetime.model.attempt import AttemptState, Claimed, Completion
from duetime.model.failure import Failure, FailureClass, bounded
from duetime.model.job import decode_options
from duetime.model.outcome import Cancelled, Failed, HandedOver, Outcome, Skipped, Snoozed, Succeeded
from duetime.model.retry import Verdict, decide
from duetime.model.run import Event

PLAIN = Succeeded()
_SUCCEED = Verdict(Event.SUCCEED)
_FAIL = Verdict(Event.FAIL)
_FIRST_WAIT = timedelta(seconds=30)
_LONGEST_WAIT = timedelta(hours=1)
"""How long a run waits for a worker that has the key of its arguments: about as long again as it has waited."""
_random = Random()


def timed_out(claimed: Claimed) -> Outcome:
    seconds = (claimed.timeout_ms or 0) / 1000
    return Failed(Failure(FailureClass.TIMEOUT, f"it ran for longer than its timeout of {seconds:g} s"))


def not_tried(claimed: Claimed) -> Outcome | None:
    """The outcome of a run that is not attempted: its arguments cannot be decrypted here, or it waited for too long."""
    if claimed.args_problem is not None:
        text = f"its arguments cannot be opened: {claimed.args_problem}"
        if claimed.key_unknown:
            # During a key rotation some processes do not have the new key yet. Another one may take the run meanwhile.
            return Snoozed(min(_FIRST_WAIT * 2 ** min(claimed.fence - 1, 10), _LONGEST_WAIT), text)
        return Failed(Failure(FailureClass.ERROR, text, final=True))
    return None if claimed.options is None else _too_late(claimed)


def _too_late(claimed: Claimed) -> Skipped | None:
    """Whether a ready run waited too long for a worker, by its misfire policy."""
    misfire = decode_options(claimed.options).misfire
    late = (claimed.started - claimed.ready) / 1_000_000
    if misfire.mode != "skip" or late <= misfire.after or claimed.attempt > 1 or claimed.lost:
        return None
    return Skipped(f"missed: {late:.0f} s late when a worker was free")


def complete(claimed: Claimed, outcome: Outcome, logs: bytes | None) -> Completion:
    """The completion of this attempt. It always returns one: a run must not stay RUNNING forever."""
    if outcome is PLAIN:
        return Completion(
            claimed.run_id, claimed.fence, _SUCCEED, AttemptState.SUCCEEDED, None, None, None, logs, claimed.lane_id
        )
    try:
        return msgspec.structs.replace(_complete(claimed, outcome, logs), lane_id=claimed.lane_id)
    except Exception as error:
        text = f"the retry policy could not be applied: {type(error).__name__}: {error}"
        return Completion(
            claimed.run_id, claimed.fence, _FAIL, AttemptState.FAILED, FailureClass.ERROR, bounded(text, 1000)
        )


def _complete(claimed: Claimed, outcome: Outcome, logs: bytes | None) -> Completion:
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
        case Snoozed(_, reason):
            return Completion(claimed.run_id, claimed.fence, verdict, AttemptState.SNOOZED, error=reason, logs=logs)
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
        case HandedOver():
            return Completion(claimed.run_id, claimed.fence, verdict, AttemptState.HANDED_OVER)
        case _:
            assert_never(outcome)

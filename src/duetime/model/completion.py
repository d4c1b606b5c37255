"""Converts the outcome of an attempt to a completion: the same wherever the attempt was made."""

from datetime import timedelta
from random import Random
from typing import assert_never

import msgspec

from duetime.duration import format_duration
from duetime.ids import once_run_id, run_id, time_of
from duetime.model.attempt import AttemptState, Claimed, Completion
from duetime.model.failure import Failure, FailureClass, bounded
from duetime.model.job import Options, decode_options
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
    """The outcome of a run that is not attempted: it waited for too long, or its arguments cannot be decrypted here."""
    if claimed.options is not None and (late := _too_late(claimed)) is not None:
        return late
    if claimed.args_problem is not None:
        text = f"its arguments cannot be opened: {claimed.args_problem}"
        if claimed.key_unknown:
            # During a key rotation some processes do not have the new key yet. Another one may take the run meanwhile.
            return Snoozed(min(_FIRST_WAIT * 2 ** min(claimed.fence - 1, 10), _LONGEST_WAIT), text)
        return Failed(Failure(FailureClass.ERROR, text, final=True))
    return None


def _too_late(claimed: Claimed) -> Skipped | None:
    """Whether a run waited too long for its first start: it has expired, or its misfire policy skips it."""
    if claimed.attempt > 1 or claimed.lost:
        return None
    options = decode_options(claimed.options)
    if _has_expired(claimed, options):
        return Skipped(f"expired: not started within {format_duration(timedelta(seconds=options.expires_in or 0))}")
    late = (claimed.started - claimed.ready) / 1_000_000
    if options.misfire.mode != "skip" or late <= options.misfire.after:
        return None
    return Skipped(f"missed: {late:.0f} s late when a worker was free")


def _has_expired(claimed: Claimed, options: Options) -> bool:
    if options.expires_in is None or claimed.started - claimed.due <= options.expires_in * 1_000_000:
        return False
    return not _is_asked_for(claimed, options)


def _is_asked_for(claimed: Claimed, options: Options) -> bool:
    """Whether a user asked for this run: a trigger, a backfill of past occurrences, a repeat. Its id has a nonce, while
    the id of an occurrence is computed from its moment."""
    if options.replays is not None or options.follows is not None:
        return options.replays is not None
    at, occurrence = time_of(claimed.run_id), run_id(claimed.job_id, claimed.due_at)
    if claimed.run_id in (occurrence, once_run_id(claimed.job_id, at)):
        return False
    return at == time_of(occurrence)  # with jitter, an occurrence is due later than the moment in its id


def complete(claimed: Claimed, outcome: Outcome, logs: bytes | None) -> Completion:
    """The completion of this attempt. It always returns one: a run must not stay RUNNING forever."""
    if outcome is PLAIN:
        return Completion(
            claimed.run_id, claimed.fence, _SUCCEED, AttemptState.SUCCEEDED, logs=logs, lane_id=claimed.lane_id
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

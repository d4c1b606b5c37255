"""Replaying runs: the id and options of the new run, the same for every store."""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from duetime.errors import Conflict
from duetime.ids import run_id, show, time_of
from duetime.model.attempt import Run
from duetime.model.job import Options, decode_options, encode_options
from duetime.model.run import REPEATABLE, RunState


class Repeat(NamedTuple):
    """A new run that replays an ended one."""

    run_id: UUID
    job_id: UUID
    lane_id: int
    due_at: datetime
    ready_at: datetime
    args: bytes
    options: bytes | None
    timeout_ms: int | None


def repeat_id(old: UUID, job_id: UUID, now: datetime, nonce: bytes) -> UUID:
    """The id of the run that replays `old`. It is computed from the nonce and the old id, so it is unique among the
    runs of the job. It sorts after the old id, even if the process that made that had a fast clock: the newest run of a
    job must have the last id."""
    return run_id(job_id, max(now, time_of(old) + timedelta(milliseconds=1)), nonce + old.bytes)


def is_new_repeat(run: Run, old: UUID, nonce: bytes) -> bool:
    """Whether the request with this nonce has made this run. Otherwise an earlier request has."""
    return run.id == repeat_id(old, run.job_id, run.due_at, nonce)


def repeat(
    old: UUID,
    job_id: UUID,
    lane_id: int,
    args: bytes,
    options: bytes | None,
    timeout_ms: int | None,
    *,
    now: datetime,
    nonce: bytes,
    delay: timedelta = timedelta(0),
) -> Repeat:
    said: Options = msgspec.structs.replace(decode_options(options), replays=show("run", old))
    return Repeat(
        repeat_id(old, job_id, now, nonce),
        job_id,
        lane_id,
        now,
        now + delay,
        args,
        encode_options(said),
        timeout_ms,
    )


def check_repeatable(run: UUID, state: RunState) -> None:
    if state not in REPEATABLE:
        raise Conflict(
            f"{show('run', run)} is {state.name}",
            remedy="only a run that is RETRYING, FAILED, CANCELLED or SKIPPED can be retried",
        )


def nothing_said(job_id: UUID) -> Conflict:
    return Conflict(f"the content of {show('job', job_id)} was pruned", remedy="submit it again")


def deleted_meanwhile(job_id: UUID) -> Conflict:
    return Conflict(f"{show('job', job_id)} was deleted", remedy="submit it again")

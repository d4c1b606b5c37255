"""Occurrences whose runs were withdrawn by a pause: they are owed, and decided when the job is resumed.

The cursor alone cannot identify them: it is one moment, and a withdrawn run may lie before others that have started or
ended. So each is stored with the id and the time of its run. No misfire policy catches up more than the newest
thousand; the rest is stored as one.
"""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

import msgspec

from duetime.model.policy import MOST_CAUGHT_UP
from duetime.model.schedule.moment import UnknownHere


class Withdrawn(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A run that was withdrawn before it started."""

    run_id: UUID
    due_at: datetime
    fence: int = 0
    """Of its last claim, if a worker held it and handed it back."""


class Owed(msgspec.Struct, frozen=True, array_like=True):
    runs: tuple[Withdrawn, ...] = ()
    """Oldest first."""
    more: bool = False
    """The first one stands for others between it and the second."""


NOTHING = Owed()
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Owed)


def decode_owed(body: bytes | None) -> Owed:
    if body is None:
        return NOTHING
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise UnknownHere(f"this release cannot read which occurrences are owed: {error}") from error


def encode_owed(before: bytes | None, withdrawn: Iterable[Withdrawn]) -> bytes | None:
    """What is owed when these are withdrawn too."""
    owed = decode_owed(before)
    runs = sorted({run.run_id: run for run in (*owed.runs, *withdrawn)}.values(), key=lambda run: run.run_id)
    if not runs:
        return None
    more = len(runs) > MOST_CAUGHT_UP + 1
    kept = [runs[0], *runs[-MOST_CAUGHT_UP:]] if more else runs
    return _encoder.encode(Owed(tuple(kept), more or owed.more))

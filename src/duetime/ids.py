"""Typed, time-ordered ids.

An id is a UUID inside and text outside: its kind (`job_`, `run_`, …) and 26 characters of Crockford's base 32, which
sort as the UUIDs do. The first 48 bits are milliseconds, so ids sort by time.

The ids of jobs and workers are generated (UUIDv7); the id of a job that was submitted with a nonce is computed from the
nonce. A run's id is *computed* (UUIDv8): the due time, then a hash of the job and that time (for a one-off job: the
job's own bits). Any number of schedulers that fire the same occurrence compute the same run id.
"""

import os
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from threading import Lock
from typing import Literal
from uuid import UUID

from duetime.errors import InvalidInput

Kind = Literal["job", "run", "wrk", "key", "pay", "gra", "sig", "ses", "blk"]
NOUNS: Mapping[Kind, str] = {
    "job": "job",
    "run": "run",
    "wrk": "worker",
    "key": "key",
    "pay": "payload",
    "gra": "graph",
    "sig": "signing secret",
    "ses": "session",
    "blk": "bulk action",
}

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_BODY = re.compile(f"[0-7][{_ALPHABET}]{{25}}")
"""26 characters hold 130 bits, and an id has 128."""
_AS_PYTHON = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")
# Every answer contains ids, so they are formatted two characters at a time.
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_LOW = (1 << 60) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)

# Of 74 bits, so that increments of up to 32 bits do not overflow within a millisecond.
_FIRST_REST = (1 << 72) - 1
_drawing = Lock()
_last = (0, 0)
"""The milliseconds and the rest of the last generated id."""


def new_id() -> UUID:
    """Generate a time-ordered id (UUIDv7)."""
    return new_ids(1)[0]


def new_ids(count: int) -> list[UUID]:
    """Generate many ids at once. The ids of one process ascend, also within a millisecond: earlier submissions sort
    first, and a batch keeps its order."""
    global _last
    noise = os.urandom(9 + 4 * count)
    ids = []
    with _drawing:
        now = time.time_ns() // 1_000_000
        milliseconds, rest = _last
        if now > milliseconds:
            milliseconds, rest = now, int.from_bytes(noise[:9], "big") & _FIRST_REST
        for start in range(9, 9 + 4 * count, 4):
            rest += int.from_bytes(noise[start : start + 4], "big") | 1
            ids.append(UUID(int=_assemble(milliseconds, 7, rest)))
        _last = milliseconds, rest
    return ids


def id_from_nonce(nonce: UUID, tenant_id: int, place: int = 0) -> UUID:
    """The id of the job that a request with this nonce creates; `place` is that of the job in a batch, which keeps its
    order. A repeated request computes the same id, and another tenant's request another one. The last bits differ
    within a batch as if drawn by lot: samples of jobs are taken by them."""
    owner = tenant_id.to_bytes(8, "big", signed=True) + place.to_bytes(4, "big")
    digest = blake2b(nonce.bytes + owner, digest_size=8).digest()
    return UUID(int=_assemble(nonce.int >> 80, 7, place << 60 | int.from_bytes(digest, "big") >> 4))


def run_id(job: UUID, due_at: datetime, nonce: bytes = b"") -> UUID:
    """The id of the run of `job` that is due at `due_at`; a manual run adds its own nonce."""
    microseconds = (due_at - _EPOCH) // _MICROSECOND
    digest = blake2b(job.bytes + microseconds.to_bytes(8, "big", signed=True) + nonce, digest_size=10).digest()
    return UUID(int=_assemble(max(microseconds, 0) // 1000, 8, int.from_bytes(digest, "big")))


def once_run_id(job: UUID, due_at: datetime) -> UUID:
    """The id of the only run of a one-off job: its time, then the job's own bits, so that the runs of jobs submitted
    together for one moment sort as the jobs do."""
    return _once_at(job, max((due_at - _EPOCH) // _MILLISECOND, 0))


def ready_run_id(job: UUID) -> UUID:
    """The same for a job that is due when it is submitted."""
    return _once_at(job, job.int >> 80)


def job_of_ready(run: UUID) -> UUID:
    """The job whose `ready_run_id` this is, if it is one."""
    return UUID(int=run.int & ~(0xF << 76) | 7 << 76)


def time_of(identity: UUID) -> datetime:
    """The moment that an id starts with."""
    return _EPOCH + timedelta(milliseconds=identity.int >> 80)


def stamp_of(identity: UUID) -> int:
    """The same in microseconds since 1970."""
    return (identity.int >> 80) * 1000


def first_id_at(moment: datetime) -> UUID:
    """Below every id that is generated at this moment or later, and above earlier ones."""
    return UUID(int=max((moment - _EPOCH) // _MILLISECOND, 0) << 80)


def show(kind: Kind, identity: UUID) -> str:
    """The text form of an id."""
    number, pairs = identity.int, _PAIRS
    high, low = number >> 60, number & _LOW  # a loop takes twice as long, and so do shifts of the whole number
    return (
        f"{kind}_{pairs[high >> 60]}{pairs[high >> 50 & 1023]}{pairs[high >> 40 & 1023]}{pairs[high >> 30 & 1023]}"
        f"{pairs[high >> 20 & 1023]}{pairs[high >> 10 & 1023]}{pairs[high & 1023]}{pairs[low >> 50]}"
        f"{pairs[low >> 40 & 1023]}{pairs[low >> 30 & 1023]}{pairs[low >> 20 & 1023]}{pairs[low >> 10 & 1023]}"
        f"{pairs[low & 1023]}"
    )


def parse(kind: Kind, text: str) -> UUID:
    """Parse an id; refuses everything that `show` would not have written."""
    prefix, _, body = text.partition("_")
    if prefix != kind or _BODY.fullmatch(body) is None:
        raise InvalidInput(f"{text[:60]!r} is not a {kind} id", field=f"{kind}_id", remedy=f"looks like {kind}_01k…")
    return UUID(int=int(body.translate(_AS_PYTHON), 32))


def beginning(kind: Kind, text: str) -> tuple[UUID, UUID] | None:
    """The lowest and the highest id that begins with this text, with or without its kind; None: it is too short to mean
    an id, or none begins so."""
    body = text.removeprefix(f"{kind}_")
    if not 6 <= len(body) <= 26 or _BODY.fullmatch(body.ljust(26, "0")) is None:
        return None
    low, high = (int(body.ljust(26, fill).translate(_AS_PYTHON), 32) for fill in "0z")
    return UUID(int=low), UUID(int=high)


def _once_at(job: UUID, milliseconds: int) -> UUID:
    own = (job.int >> 64 & 0xFFF) << 62 | job.int & 0x3FFF_FFFF_FFFF_FFFF
    return UUID(int=_assemble(milliseconds, 8, own))


def _assemble(milliseconds: int, version: int, rest: int) -> int:
    """Lay out 48 bits of time, the version, 12 bits, the variant, and 62 bits (RFC 9562)."""
    return (
        (milliseconds & 0xFFFF_FFFF_FFFF) << 80
        | version << 76
        | ((rest >> 62) & 0xFFF) << 64
        | 0b10 << 62
        | (rest & 0x3FFF_FFFF_FFFF_FFFF)
    )

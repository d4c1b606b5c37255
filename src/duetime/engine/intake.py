"""Intake: what a caller asks for is checked, given its identity, and written once.

Everything that can be refused is refused here, before the store is asked: nothing of a bad batch is stored. What the
store then answers is final: the job survives the death of every process.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import blake2b
from typing import Any
from uuid import UUID

import msgspec

from duetime.engine.turns import in_turn
from duetime.errors import InvalidInput
from duetime.ids import new_id
from duetime.model import json
from duetime.model.dependency import DependsOn
from duetime.model.job import (
    DEFAULT_OPTIONS,
    DEFAULT_QUEUE,
    DEFAULT_TENANT,
    NewJob,
    Options,
    Said,
    Submitted,
    encode_options,
)
from duetime.model.lane import LaneKey, Tier
from duetime.model.name import check_key, check_name
from duetime.model.schedule import NOW, Every, Once, Schedule, encode_schedule
from duetime.store.protocol import Intake as IntakeRole

MAX_TIMEOUT = timedelta(days=7)


class Intake:
    def __init__(self, store: IntakeRole, *, tenant_id: int = DEFAULT_TENANT) -> None:
        self._store = store
        self._tenant_id = tenant_id

    async def submit(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Store all of these jobs or none of them; one whose `key` another transaction holds waits its turn."""
        check_batch(jobs)
        return await in_turn(lambda: self._store.submit(self._tenant_id, jobs))


def prepare(
    *,
    task: str,
    args: Mapping[str, Any],
    max_payload: int,
    tenant_id: int = DEFAULT_TENANT,
    schedule: Schedule = NOW,
    queue: str = DEFAULT_QUEUE,
    tier: Tier = Tier.MEDIUM,
    options: Options = DEFAULT_OPTIONS,
    timeout: timedelta | None = None,
    key: str | None = None,
    idempotency_key: str | None = None,
    job_id: UUID | None = None,
    said: Said | None = None,
    depends_on: DependsOn | None = None,
) -> NewJob:
    """Check a request and make it a job, ready to be stored. What was said counts as the same request on every day."""
    lane = LaneKey(tenant_id, check_name(queue, "queue"), tier, check_name(task, "task"), keyed=options.is_keyed)
    body = json.encode(args, field="args", limit=max_payload)
    stored_options = encode_options(options)
    timeout_ms = None if timeout is None else check_timeout(timeout)
    fingerprint = b""
    if key is not None or idempotency_key is not None:
        if key is not None:
            check_key(key, "key")
        if idempotency_key is not None:
            check_key(idempotency_key, "idempotency_key")
        fingerprint = fingerprint_of(lane, schedule, body, stored_options, timeout_ms, said, depends_on)
    return NewJob(
        job_id or new_id(),
        lane,
        schedule,
        body,
        stored_options,
        timeout_ms,
        key,
        idempotency_key,
        fingerprint,
        said,
        depends_on,
    )


def fingerprint_of(
    lane: LaneKey,
    schedule: Schedule,
    args: bytes,
    options: bytes | None,
    timeout_ms: int | None,
    said: Said | None = None,
    depends_on: DependsOn | None = None,
) -> bytes:
    """Tells whether two requests ask for the same thing."""
    parts = (lane.queue, str(int(lane.tier)), lane.task, str(timeout_ms))
    digest = blake2b(digest_size=16)
    waits = b"" if depends_on is None else msgspec.json.encode(depends_on)
    for part in (*(text.encode() for text in parts), _asked(schedule, said), args, options or b"", waits):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def _asked(schedule: Schedule, said: Said | None) -> bytes:
    if isinstance(schedule, Once):
        return encode_schedule(schedule) if said is None else str(said).encode()
    if isinstance(schedule, Every) and schedule.said is not None:
        schedule = msgspec.structs.replace(schedule, anchor=None)  # counted from the day on which it was said
    return encode_schedule(schedule)


def check_timeout(timeout: timedelta) -> int:
    if not timedelta(0) < timeout <= MAX_TIMEOUT:
        raise InvalidInput(
            f"{timeout} cannot be a timeout", field="timeout", remedy="more than nothing, at most 7 days"
        )
    return max(1, round(timeout / timedelta(milliseconds=1)))


def check_batch(jobs: Sequence[NewJob]) -> None:
    """A key may stand only once in a batch: which of the two would it name?"""
    for field in ("key", "idempotency_key"):
        seen: set[str] = set()
        for index, job in enumerate(jobs):
            value = getattr(job, field)
            if value is not None:
                if value in seen:
                    raise InvalidInput(f"{value!r} stands twice in this batch", field=f"jobs[{index}].{field}")
                seen.add(value)

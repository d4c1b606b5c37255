"""Intake: a caller's jobs are checked, given their ids, and written once.

Everything that can be refused is refused before the store is called: a bad batch stores nothing. The store's answer is
final: the job survives a crash of any process.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec

from duetime.engine.key_wait import KeyWait
from duetime.errors import InvalidInput, KeyInFlight
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
from duetime.model.lane import Tier
from duetime.model.name import check_name
from duetime.model.schedule import NOW, Schedule
from duetime.spec.resolved import Resolved
from duetime.store.protocol.store import Intake as IntakeRole


class Intake:
    def __init__(self, intake: IntakeRole, *, tenant_id: int = DEFAULT_TENANT) -> None:
        self._intake = intake
        self._tenant_id = tenant_id

    async def submit(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Store all of these jobs or none of them. A job whose `key` another transaction holds waits for its turn."""
        check_batch(jobs)
        wait = KeyWait()
        while True:
            try:
                return await self._intake.submit(self._tenant_id, jobs)
            except KeyInFlight as error:
                await wait.turn(error)


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
    """A job from checked values: for jobs that a node makes itself."""
    if key is not None:
        options = msgspec.structs.replace(options, key=key)
    resolved = Resolved(
        queue=check_name(queue, "queue"),
        tier=tier,
        timeout_ms=None if timeout is None else max(1, round(timeout / timedelta(milliseconds=1))),
        options=options,
        stored_options=encode_options(options),
        schedule=schedule,
        said=said,
        depends_on=depends_on,
        idempotency_key=idempotency_key,
    )
    body = json.encode(args, field="args", limit=max_payload)
    return resolved.job(tenant_id, check_name(task, "task"), body, job_id=job_id)


def check_batch(jobs: Sequence[NewJob]) -> None:
    """Refuse a batch in which two jobs have the same key."""
    if len(jobs) == 1:
        return
    for field in ("key", "idempotency_key"):
        seen: set[str] = set()
        for index, job in enumerate(jobs):
            value = getattr(job, field)
            if value is not None:
                if value in seen:
                    raise InvalidInput(f"{value!r} appears twice in this batch", field=f"jobs[{index}].{field}")
                seen.add(value)

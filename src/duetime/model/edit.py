"""An edit of a job. Fields that it does not name stay unchanged."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from duetime.model.job import NewJob, decode_options
from duetime.model.lane import Tier
from duetime.model.schedule import Schedule


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What an edit changes. Every value is validated; `UNSET` leaves a field unchanged, None removes it."""

    schedule: Schedule | UnsetType = UNSET
    args: bytes | UnsetType = UNSET
    options: Mapping[str, Any] = {}
    """Fields of `Options` by name; those that are not named stay."""
    task: str | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    tier: Tier | UnsetType = UNSET
    timeout_ms: int | UnsetType | None = UNSET


def changes_for(job: NewJob) -> Changes:
    """The edit that makes a stored job match this request."""
    return Changes(
        schedule=job.schedule,
        args=job.args,
        options=msgspec.structs.asdict(decode_options(job.options)),
        task=job.lane.task,
        queue=job.lane.queue,
        tier=Tier(job.lane.tier),
        timeout_ms=job.timeout_ms,
    )

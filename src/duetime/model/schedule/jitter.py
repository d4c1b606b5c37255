"""Spreading a herd: jobs that are due at the same moment start a little apart."""

from datetime import datetime, timedelta
from hashlib import blake2b
from uuid import UUID

from duetime.model.schedule.moment import MICROSECOND


def jittered(job_id: UUID, fire_at: datetime, max_jitter: timedelta) -> datetime:
    """When a job starts that is due at `fire_at`: never before it, and less than `max_jitter` after it.

    The delay depends on the job alone. So every node computes the same, the delays of many jobs are spread evenly, and
    the fires of one job keep their order and their distance.
    """
    drawn = int.from_bytes(blake2b(job_id.bytes, digest_size=8, person=b"jitter").digest())
    return fire_at + (max_jitter // MICROSECOND * drawn >> 64) * MICROSECOND

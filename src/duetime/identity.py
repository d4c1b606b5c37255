"""How a caller names a job or a run."""

from uuid import UUID

from duetime import ids
from duetime.errors import InvalidInput
from duetime.receipt import Receipt

JobLike = Receipt | str | UUID
"""A job by its receipt or its id."""
RunLike = str | UUID
"""A run by its id."""


def job_identity(job: JobLike) -> UUID:
    return identity("job", job.job_id if isinstance(job, Receipt) else job)


def identity(kind: ids.Kind, given: object) -> UUID:
    if isinstance(given, UUID):
        return given
    if not isinstance(given, str):
        raise InvalidInput(f"{given!r} is not a {kind} id", field=f"{kind}_id", remedy=f"looks like {kind}_01k…")
    return ids.parse(kind, given)

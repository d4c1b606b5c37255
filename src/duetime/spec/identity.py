"""How a caller identifies a job or a run."""

from typing import Protocol, TypeAlias, runtime_checkable
from uuid import UUID

from duetime import ids
from duetime.errors import InvalidInput


@runtime_checkable
class HasJobId(Protocol):
    """A receipt, or anything else with a job id as text."""

    @property
    def job_id(self) -> str: ...


JobLike: TypeAlias = HasJobId | str | UUID
"""A job by its receipt or its id."""
RunLike: TypeAlias = str | UUID
"""A run by its id."""


def job_identity(job: JobLike) -> UUID:
    return identity("job", job if isinstance(job, str | UUID) else getattr(job, "job_id", job))


def identity(kind: ids.Kind, given: object) -> UUID:
    if isinstance(given, UUID):
        return given
    if not isinstance(given, str):
        raise InvalidInput(f"{given!r} is not a {kind} id", field=f"{kind}_id", remedy=f"looks like {kind}_01k…")
    return ids.parse(kind, given)

"""What a job is found by beside its id, and which payload it refers to: small rows written together with it."""

from collections.abc import Iterable
from uuid import UUID

from duetime.errors import InvalidInput
from duetime.ids import parse
from duetime.model.job import NewJob, decode_options
from duetime.model.listing import JobFilter

OWNER, NAME, TAG, KEY = "o", "n", "t", "k"


def labels_of(job: NewJob) -> list[tuple[str, str]]:
    """The labels of a job: (kind, value)."""
    if job.options is None and job.key is None:
        return []
    options = decode_options(job.options)
    found = [(TAG, tag) for tag in dict.fromkeys(options.tags)]
    found += [(kind, value) for kind, value in ((OWNER, options.owner), (NAME, options.name), (KEY, job.key)) if value]
    return found


def label_rows(jobs: Iterable[NewJob]) -> list[tuple[str, str, UUID]]:
    return [(kind, value, job.id) for job in jobs for kind, value in labels_of(job)]


def payload_of(job: NewJob) -> UUID | None:
    """The payload that the store keeps for this job; a reference to anything else is not ours to read."""
    ref = None if job.options is None else decode_options(job.options).payload_ref
    if ref is None or not ref.startswith("pay_"):
        return None
    try:
        return parse("pay", ref)
    except InvalidInput:
        return None


def payload_rows(jobs: Iterable[NewJob]) -> list[tuple[UUID, UUID]]:
    return [(payload_id, job.id) for job in jobs if (payload_id := payload_of(job)) is not None]


def wanted_labels(filter: JobFilter) -> list[tuple[str, str]]:
    """The labels that a job must have to be listed; the one that the fewest jobs share is likely to stand first."""
    given = ((KEY, filter.key), (NAME, filter.name), (OWNER, filter.owner), (TAG, filter.tag))
    return [(kind, value) for kind, value in given if value is not None]

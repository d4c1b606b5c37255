"""What a job is found by beside its id, and which payload it refers to: small rows written together with it."""

from collections.abc import Iterable
from uuid import UUID

from duetime.errors import InvalidInput
from duetime.ids import parse
from duetime.model.job import NewJob, decode_options
from duetime.model.lists import JobFilter

OWNER, NAME, TAG, KEY = "o", "n", "t", "k"


def labels_of(job: NewJob) -> list[tuple[str, str]]:
    """The labels of a job: (kind, value)."""
    if job.options is None and job.key is None:
        return []
    return _said(job.options) + ([(KEY, job.key)] if job.key else [])


def labels_after_edit(job_id: UUID, options: bytes | None) -> list[tuple[str, str, UUID]]:
    """What an edited job is found by, beside its key, which an edit does not change."""
    return [(kind, value, job_id) for kind, value in _said(options)]


def label_rows(jobs: Iterable[NewJob]) -> list[tuple[str, str, UUID]]:
    return [(kind, value, job.id) for job in jobs for kind, value in labels_of(job)]


def payload_of(job: NewJob) -> UUID | None:
    """The payload that the store keeps for this job; a reference to anything else is not ours to read."""
    return _payload_in(job.options)


def _payload_in(options: bytes | None) -> UUID | None:
    ref = None if options is None else decode_options(options).payload_ref
    if ref is None or not ref.startswith("pay_"):
        return None
    try:
        return parse("pay", ref)
    except InvalidInput:
        return None


def payload_after_edit(job_id: UUID, options: bytes | None) -> list[tuple[UUID, UUID]]:
    payload_id = _payload_in(options)
    return [] if payload_id is None else [(payload_id, job_id)]


def payload_let_go(before: bytes | None, after: bytes | None) -> UUID | None:
    """The payload that a job referred to before an edit and does not any more."""
    payload_id = _payload_in(before)
    return None if payload_id == _payload_in(after) else payload_id


def payload_rows(jobs: Iterable[NewJob]) -> list[tuple[UUID, UUID]]:
    return [(payload_id, job.id) for job in jobs if (payload_id := payload_of(job)) is not None]


def wanted_labels(filter: JobFilter) -> list[tuple[str, str]]:
    """The labels that a job must have to be listed; the one that the fewest jobs share is likely to stand first."""
    given = ((KEY, filter.key), (NAME, filter.name), (OWNER, filter.owner), (TAG, filter.tag))
    return [(kind, value) for kind, value in given if value is not None]


def _said(body: bytes | None) -> list[tuple[str, str]]:
    if body is None:
        return []
    options = decode_options(body)
    found = [(TAG, tag) for tag in dict.fromkeys(options.tags)]
    return found + [(kind, value) for kind, value in ((OWNER, options.owner), (NAME, options.name)) if value]

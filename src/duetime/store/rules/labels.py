"""The labels of a job and its payload reference: small rows that are stored together with the job."""

from collections.abc import Iterable
from uuid import UUID

from duetime.errors import InvalidInput
from duetime.ids import parse
from duetime.model.job import NewJob, decode_options
from duetime.model.lists import JobFilter
from duetime.model.scope import Scope

OWNER, NAME, TAG, KEY = "o", "n", "t", "k"


def labels_of(job: NewJob) -> list[tuple[str, str]]:
    """The labels of a job: (kind, value)."""
    if job.options is None and job.key is None:
        return []
    return labels_in(job.options) + ([(KEY, job.key)] if job.key else [])


def labels_after_edit(job_id: UUID, options: bytes | None) -> list[tuple[str, str, UUID]]:
    """The labels of an edited job, except for its key, which an edit does not change."""
    return [(kind, value, job_id) for kind, value in labels_in(options)]


def label_rows(jobs: Iterable[NewJob]) -> list[tuple[str, str, UUID]]:
    return [(kind, value, job.id) for job in jobs for kind, value in labels_of(job)]


def payload_of(job: NewJob) -> UUID | None:
    """The payload in the store that this job refers to. References to other places are not read."""
    return payload_in(job.options)


def payload_in(options: bytes | None) -> UUID | None:
    """The payload in the store that a job's options name."""
    ref = None if options is None else decode_options(options).payload_ref
    if ref is None or not ref.startswith("pay_"):
        return None
    try:
        return parse("pay", ref)
    except InvalidInput:
        return None


def payload_after_edit(job_id: UUID, options: bytes | None) -> list[tuple[UUID, UUID]]:
    payload_id = payload_in(options)
    return [] if payload_id is None else [(payload_id, job_id)]


def payload_let_go(before: bytes | None, after: bytes | None) -> UUID | None:
    """The payload that a job referred to only before an edit."""
    payload_id = payload_in(before)
    return None if payload_id == payload_in(after) else payload_id


def payload_rows(jobs: Iterable[NewJob]) -> list[tuple[UUID, UUID]]:
    return [(payload_id, job.id) for job in jobs if (payload_id := payload_of(job)) is not None]


def wanted_labels(filter: JobFilter) -> list[tuple[str, str]]:
    """The labels that a listed job must have; the first one is likely to be the rarest. Those of a scope come first: a
    list walks over all jobs with its first label, and how far it came must not depend on jobs outside the scope."""
    given = ((KEY, filter.key), (NAME, filter.name), (OWNER, filter.owner), (TAG, filter.tag))
    wanted = [(kind, value) for kind, value in given if value is not None]
    return list(dict.fromkeys([*labels_of_scope(filter.within), *wanted]))


def labels_of_scope(scope: Scope | None) -> list[tuple[str, str]]:
    """The labels that a job in this scope has."""
    given = () if scope is None else ((OWNER, scope.owner), (TAG, scope.tag))
    return [(kind, value) for kind, value in given if value is not None]


def labels_in(body: bytes | None) -> list[tuple[str, str]]:
    """The labels that a job's options name: (kind, value)."""
    if body is None:
        return []
    options = decode_options(body)
    found = [(TAG, tag) for tag in dict.fromkeys(options.tags)]
    return found + [(kind, value) for kind, value in ((OWNER, options.owner), (NAME, options.name)) if value]

"""Keys that callers chose, and what a submission that carries one does.

An idempotency key answers its first request again, for as long as it is kept. A `key` names one live job: the same
request changes nothing, another one edits the job. Both hold wherever the job lives.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar
from uuid import UUID

import msgspec

from duetime.errors import InvalidInput, JobBusy, KeyInFlight, KeyReused
from duetime.model.graph import NewGraph
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import JobState, NewJob, Submitted
from duetime.model.schedule import NOW
from duetime.store.rules.job_rows import Fields, planned_for
from duetime.store.rules.placement import Placed

IDEMPOTENCY, KEY, REPEAT = "i", "k", "r"
"""Kinds of keys. The key of a repeat is the id of an ended run, and leads to its replay."""
NO_JOB = UUID(int=0)
"""What keys lead to that are not kept for as long as a job lives."""
MOST_IN_A_WAVE = 1000

T = TypeVar("T")


class Repeated(NamedTuple):
    old: UUID
    new: UUID


class Known(NamedTuple):
    """What a key leads to."""

    job_id: UUID
    run_id: UUID | None
    fingerprint: bytes
    next_run: datetime | None


class LiveRun(NamedTuple):
    id: UUID
    unclaimed: bool
    """No worker has ever held it, so it can be withdrawn."""
    due_at: datetime


class Standing(NamedTuple):
    """The job behind a key: its row in the table `jobs`, if it has one, and its live runs."""

    row: Fields | None
    runs: Sequence[LiveRun]


class Editable(NamedTuple):
    """The job behind a key has not ended: the request is an edit of it."""

    job_id: UUID
    standing: Standing


class KeyRow(NamedTuple):
    kind: str
    key: str
    job_id: UUID
    run_id: UUID | None
    fingerprint: bytes
    next_run: datetime | None


def is_plain(job: NewJob) -> bool:
    """Due now, without keys and parents: the fast path."""
    return job.schedule is NOW and is_free(job)


def is_free(job: NewJob) -> bool:
    """Without keys and parents: storing it depends on nothing that is stored."""
    return job.key is None and job.idempotency_key is None and job.depends_on is None


def waves(jobs: Sequence[NewJob]) -> list[list[NewJob]]:
    """Split a batch so that no part has a key or id twice: the parts act as consecutive requests. No part is so large
    that encoding it blocks the event loop for long."""
    if not any(job.key or job.idempotency_key for job in jobs) and len({job.id for job in jobs}) == len(jobs):
        return [list(jobs[start : start + MOST_IN_A_WAVE]) for start in range(0, len(jobs), MOST_IN_A_WAVE)]
    parts: list[list[NewJob]] = [[]]
    taken: set[tuple[str, str] | UUID] = set()
    for job in jobs:
        keys: set[tuple[str, str] | UUID] = {*_keys(job), job.id}
        if len(parts[-1]) >= MOST_IN_A_WAVE or not taken.isdisjoint(keys):
            parts.append([])
            taken.clear()
        parts[-1].append(job)
        taken.update(keys)
    return parts


def keys_of(jobs: Iterable[NewJob]) -> list[tuple[str, str]]:
    """All keys of these jobs, in the order in which all code locks them."""
    return sorted({key for job in jobs for key in _keys(job)})


def answer_again(job: NewJob, known: Known) -> Submitted:
    """The answer to a request whose idempotency key was used before."""
    if known.fingerprint != _bound_to(job):
        raise KeyReused(
            f"the idempotency key {job.idempotency_key!r} was used for another request",
            field="idempotency_key",
            remedy="use a new key for a new request",
        )
    return Submitted(known.job_id, known.next_run, known.run_id, created=False, replayed=True)


def decode_answer(request: KeyedRequest, fingerprint: bytes, answer: bytes | None, kind: type[T]) -> T:
    """The first answer to a request whose idempotency key was used before."""
    return msgspec.json.decode(_answer(request, fingerprint, answer), type=kind)


def _answer(request: KeyedRequest, fingerprint: bytes, answer: bytes | None) -> bytes:
    if fingerprint != request.fingerprint or answer is None:
        raise KeyReused(
            f"the idempotency key {request.key!r} was used for another request",
            field="idempotency_key",
            remedy="use a new key for a new request",
        )
    request.replayed = True
    return answer


def answer_of(request: KeyedRequest, fingerprint: bytes, answer: bytes | None) -> bytes:
    """The stored response to a request whose key was used before."""
    if fingerprint == request.fingerprint and answer is None:
        raise KeyInFlight(
            f"the request with the key {request.key!r} has not ended, or its server died before it could answer",
            field="idempotency_key",
            remedy="retry in a moment; if that does not help, check its effects, and use a new key",
        )
    return _answer(request, fingerprint, answer)


def answer_known_graph(graph: NewGraph, known: UUID, fingerprint: bytes) -> UUID:
    """The graph that an idempotency key led to before."""
    if fingerprint != graph.fingerprint:
        raise KeyReused(
            f"the idempotency key {graph.idempotency_key!r} was used for another request",
            field="idempotency_key",
            remedy="use a new key for a new request",
        )
    return known


def meet(job: NewJob, known: Known, standing: Standing) -> Submitted | Placed | Editable | None:
    """What a request with the `key` of an earlier job does.

    An answer when nothing changes; a place when it replaces the earlier job, whose waiting run is withdrawn; None when
    the earlier one is over.
    """
    row, runs = standing
    if (row is None and not runs) or (row is not None and row["state"] >= JobState.ENDED):
        return None
    if known.fingerprint == job.fingerprint:
        waiting = [run.due_at for run in runs if run.unclaimed]
        next_run = min(waiting, default=known.next_run if row is None else planned_for(row))
        return Submitted(known.job_id, next_run, runs[-1].id if runs else None, created=False)
    if row is not None:
        if job.depends_on is not None:
            raise InvalidInput(
                f"the job with the key {job.key!r} exists, and an edit cannot add depends_on",
                field="depends_on",
                remedy="cancel it first, or use another key",
            )
        return Editable(known.job_id, standing)
    if not all(run.unclaimed for run in runs):
        raise JobBusy(
            f"the job with the key {job.key!r} has started and cannot be replaced",
            field="key",
            remedy="wait for its end, cancel it, or use another key",
        )
    return Placed(msgspec.structs.replace(job, id=known.job_id), version=2, created=False)


def key_rows(
    jobs: Iterable[NewJob],
    known: Mapping[tuple[str, str | None], Known],
    answers: Mapping[UUID, Submitted],
    placed: Iterable[UUID],
) -> list[KeyRow]:
    """The keys to store: every new idempotency key, and the `key` of each job that was placed or edited."""
    stored = set(placed)
    rows = []
    for job in jobs:
        answer = answers[job.id]
        found = (answer.job_id, answer.run_id)
        if job.idempotency_key is not None and (IDEMPOTENCY, job.idempotency_key) not in known:
            rows.append(KeyRow(IDEMPOTENCY, job.idempotency_key, *found, _bound_to(job), answer.next_run))
        if job.key is not None and job.id in stored:
            rows.append(KeyRow(KEY, job.key, *found, job.fingerprint, answer.next_run))
    return rows


def _bound_to(job: NewJob) -> bytes:
    """The fingerprint of the request."""
    return job.fingerprint if job.request_fingerprint is None else job.request_fingerprint


def _keys(job: NewJob) -> list[tuple[str, str]]:
    keys = []
    if job.key is not None:
        keys.append((KEY, job.key))
    if job.idempotency_key is not None:
        keys.append((IDEMPOTENCY, job.idempotency_key))
    return keys

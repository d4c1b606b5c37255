"""Bulk actions: one action on everything that a filter of a list matches.

A bulk action is stored with its filter and its progress, so that any server can continue it. It walks the list newest
first: what is created after it began is not part of it. Every action is idempotent, so repeating the last few objects
after a crash does nothing twice.
"""

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from duetime.model.lists import DeadFilter, DeadLetter, JobFilter, JobItem, JobStatus, RunFilter, RunItem
from duetime.model.run import REPEATABLE, RunState

JobAction = Literal["cancel", "pause", "resume", "run"]
RunAction = Literal["cancel", "retry"]
DeadAction = Literal["retry", "discard"]
Item = JobItem | RunItem | DeadLetter

STARTING = frozenset({"run", "retry"})
"""The actions that start runs, and therefore have a rate."""
MOST_ERRORS = 10
LONGEST_ERROR = 300
_OVER = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.SKIPPED, JobStatus.ENDED})


class JobsWork(msgspec.Struct, frozen=True, tag_field="of", tag="jobs"):
    action: JobAction
    filter: JobFilter


class RunsWork(msgspec.Struct, frozen=True, tag_field="of", tag="runs"):
    action: RunAction
    filter: RunFilter


class DeadLettersWork(msgspec.Struct, frozen=True, tag_field="of", tag="dead_letters"):
    action: DeadAction
    filter: DeadFilter


BulkWork = JobsWork | RunsWork | DeadLettersWork


class BulkPlan(msgspec.Struct, frozen=True):
    """What a bulk action does, as it is stored."""

    work: BulkWork
    conditions: dict[str, object]
    """The filter as it was given."""
    rate: float | None = None
    """How many runs start per second."""


class BulkError(msgspec.Struct, frozen=True):
    """An object on which the action failed."""

    object: str
    error: str


class NewBulk(msgspec.Struct, frozen=True):
    id: UUID
    tenant_id: int
    plan: BulkPlan
    key_id: UUID | None
    actor: str


class Bulk(msgspec.Struct, frozen=True):
    """A bulk action, and how far it is."""

    id: UUID
    tenant_id: int
    plan: BulkPlan
    key_id: UUID | None
    actor: str
    below: UUID | None
    """Where the list continues; None: at its beginning."""
    done: int
    skipped: int
    """Objects that the action does not apply to, such as a job that is over."""
    failed: int
    errors: tuple[BulkError, ...]
    """The newest ones."""
    created_at: datetime
    finished_at: datetime | None
    stopped: bool


class BulkStep(msgspec.Struct, frozen=True):
    """What one batch adds."""

    below: UUID | None
    done: int = 0
    skipped: int = 0
    failed: int = 0
    errors: tuple[BulkError, ...] | None = None
    """All that are kept from now on; None: unchanged."""
    finished: bool = False


class BulkCount(msgspec.Struct, frozen=True):
    """What a bulk action would affect."""

    matching: int
    affected: int
    complete: bool
    """False: more may match than were counted."""
    sample: tuple[Item, ...]
    """The newest of those that are affected."""


def applies(work: BulkWork, item: Item) -> bool:
    """Whether the action changes this object."""
    match work, item:
        case JobsWork(action="resume"), JobItem():
            return item.status is JobStatus.PAUSED
        case JobsWork(action="pause"), JobItem():
            return item.status in (JobStatus.ACTIVE, JobStatus.PENDING)
        case JobsWork(action="run"), JobItem():
            return item.status in (JobStatus.ACTIVE, JobStatus.PENDING, JobStatus.PAUSED)
        case JobsWork(), JobItem():
            return item.status not in _OVER
        case RunsWork(action="retry"), RunItem():
            return item.state is RunState.RETRYING or item.state in REPEATABLE
        case RunsWork(), RunItem():
            return not item.state.is_end
        case _:
            return True


_encoder = msgspec.json.Encoder()
_plan_decoder = msgspec.json.Decoder(BulkPlan)
_error_decoder = msgspec.json.Decoder(tuple[BulkError, ...])


def encode_plan(plan: BulkPlan) -> bytes:
    return _encoder.encode(plan)


def decode_plan(body: bytes) -> BulkPlan:
    return _plan_decoder.decode(body)


def encode_bulk_errors(errors: tuple[BulkError, ...]) -> bytes:
    return _encoder.encode(errors)


def decode_bulk_errors(body: bytes) -> tuple[BulkError, ...]:
    return _error_decoder.decode(body)

"""Requests and answers about bulk actions."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from duetime.spec.fields import Request
from duetime.wire.jobs import JobConditions
from duetime.wire.runs import DeadLetterFilter, RunConditions

BulkActionName = Literal["cancel", "pause", "resume", "run", "retry", "discard"]
BulkObjects = Literal["jobs", "runs", "dead_letters"]
BulkStatus = Literal["running", "done", "stopped"]


class BulkRequest(Request, frozen=True):
    """One action on all jobs, runs or dead letters that match: one of the three is given, with the conditions of its
    list."""

    action: BulkActionName
    """Jobs: `cancel`, `pause`, `resume`, `run` (an extra run now). Runs: `cancel`, `retry`. Dead letters: `retry`,
    `discard`."""
    jobs: JobConditions | None = None
    runs: RunConditions | None = None
    dead_letters: DeadLetterFilter | None = None
    rate: Annotated[float, Meta(gt=0, le=10_000, description="Runs per second, for `run` and `retry`.")] = 100.0


class BulkSample(Struct, frozen=True):
    id: str
    name: str
    """Its name, or its task."""


class BulkPreview(Struct, frozen=True):
    matching: int
    """How many match the conditions."""
    affected: int
    """How many of them the action would change."""
    complete: bool
    """False: it stopped counting, at 10,000 or after a second, and more may match."""
    sample: tuple[BulkSample, ...]
    """The newest of those that would change."""


class BulkFailure(Struct, frozen=True):
    id: str
    error: str


class BulkView(Struct, frozen=True, kw_only=True):
    bulk_id: str
    status: BulkStatus
    action: BulkActionName
    objects: BulkObjects
    conditions: dict[str, Any]
    actor: str
    """The name of the key that started it."""
    done: int
    skipped: int
    """Objects that match but do not change, such as jobs that are over."""
    failed: int
    failures: tuple[BulkFailure, ...]
    """The newest ones."""
    created_at: datetime
    finished_at: datetime | None


class BulkList(Struct, frozen=True):
    items: tuple[BulkView, ...]

"""Attempts: a run given to a worker, the worker's report about it, and what history keeps."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from duetime.errors import SealBroken
from duetime.model import json
from duetime.model.failure import FailureClass
from duetime.model.lane import Tier
from duetime.model.microseconds import moment
from duetime.model.retry import Verdict
from duetime.model.run import RunState
from duetime.model.stored_enum import StoredEnum


class AttemptState(StoredEnum):
    """How an attempt ended. The numbers are stored: never reuse one."""

    SUCCEEDED = 1
    FAILED = 2
    LOST = 3
    SNOOZED = 4
    CANCELLED = 5
    SKIPPED = 6
    HANDED_OVER = 7
    """It has not ended: it continues without its worker, so this is never stored."""


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """A run that a worker has leased, with everything that it needs to execute it. Its moments are microseconds."""

    run_id: UUID
    job_id: UUID
    lane_id: int
    fence: int
    attempt: int
    lost: int
    due: int
    ready: int
    started: int
    args: bytes
    options: bytes | None
    timeout_ms: int | None
    checkpoint: bytes | None
    args_problem: str | None = None
    """Why its arguments cannot be decrypted here, so that it cannot be attempted."""
    key_unknown: bool = False
    """Whether the reason is a key that is unknown here, and may be known elsewhere or later."""

    @property
    def due_at(self) -> datetime:
        return moment(self.due)

    @property
    def ready_at(self) -> datetime:
        return moment(self.ready)

    @property
    def started_at(self) -> datetime:
        return moment(self.started)


class Completion(msgspec.Struct, frozen=True, gc=False):
    """The report of a worker, or of the reaper in its place, about one attempt."""

    run_id: UUID
    fence: int
    verdict: Verdict
    attempt_state: AttemptState
    failure: FailureClass | None = None
    error: str | None = None
    result: bytes | None = None
    logs: bytes | None = None
    lane_id: int = 0
    """The lane that the run was claimed from, as far as the reporter knows; for metrics."""
    fingerprint: str | None = None
    """The fingerprint of the error, if the error itself is encrypted."""


class RunNote(msgspec.Struct, frozen=True):
    """Progress, checkpoint and log of a running attempt."""

    run_id: UUID
    fence: int
    progress: float | None = None
    message: str | None = None
    checkpoint: bytes | None = None
    logs: bytes | None = None
    """The whole log so far."""


class Attempt(msgspec.Struct, frozen=True):
    """One finished attempt, as history keeps it."""

    attempt: int
    fence: int
    state: AttemptState
    worker_id: UUID | None
    started_at: datetime | None
    finished_at: datetime
    failure: FailureClass | None
    error: str | None
    logs: bytes | None

    @property
    def log_lines(self) -> list[str]:
        """The lines that the task logged through its context."""
        return [line["text"] for line in json.decode(self.logs)["lines"]] if self.logs else []


class Run(msgspec.Struct, frozen=True):
    """A run as it is read back, with its finished attempts, oldest first."""

    id: UUID
    job_id: UUID
    tenant_id: int
    task: str
    queue: str
    tier: Tier
    state: RunState
    attempt: int
    lost: int
    fence: int
    due_at: datetime
    ready_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker_id: UUID | None
    lease_until: datetime | None
    args: bytes
    result: bytes | None = None
    failure: FailureClass | None = None
    error: str | None = None
    progress: float | None = None
    message: str | None = None
    attempts: tuple[Attempt, ...] = ()
    has_earlier_attempts: bool = False
    """Whether there were more attempts than are read at a time (a hundred, or ten in a long list of runs); these are
    the newest."""
    replays: str | None = None
    """The id of the run that this one repeats."""
    logs: bytes | None = None
    """The log of the current attempt, about a second old. Ended attempts have their own logs."""
    args_problem: str | None = None
    """Why its arguments cannot be decrypted here."""
    first_started_at: datetime | None = None
    """When it started for the first time; `started_at` is the start of its last attempt."""
    archived: bool = False
    """Whether it was read from the archive."""

    @property
    def value(self) -> Any:
        """What the task returned; None if it has not returned, or if the result was not stored."""
        return json.decode(self.result) if self.result else None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the task. Raises `SealBroken` when they cannot be decrypted here."""
        if self.args_problem is not None:
            raise SealBroken(f"its arguments cannot be opened: {self.args_problem}")
        found: dict[str, Any] = json.decode(self.args)
        return found

    @property
    def lag(self) -> timedelta | None:
        """How long after its due time it first started."""
        return None if self.first_started_at is None else self.first_started_at - self.due_at

    @property
    def retry_delay(self) -> timedelta | None:
        """From its first start to that of its last attempt; None if that is the first one, or has not started."""
        if self.first_started_at is None or self.started_at in (None, self.first_started_at):
            return None
        return self.started_at - self.first_started_at

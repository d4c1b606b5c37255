"""Events: what changed, for watchers. One event covers a batch of one tenant's jobs or runs."""

from datetime import datetime
from typing import NewType
from uuid import UUID

import msgspec

from duetime.model.stored_enum import StoredEnum


class EventKind(StoredEnum):
    """What happened. The numbers are stored: never reuse one. 4 to 7 are the end states of runs."""

    SUBMITTED = 1
    FIRED = 2
    STARTED = 3
    SUCCEEDED = 4
    FAILED = 5
    CANCELLED = 6
    SKIPPED = 7
    RETRYING = 8
    CHANGED = 9
    """A job was paused, resumed, edited or cancelled."""
    DELETED = 10
    NO_WORKER = 11
    """A run is due, and no live worker can take it."""
    SLOW = 12
    """A run takes longer than its job's `warn_after`."""

    @property
    def of_jobs(self) -> bool:
        """Whether the ids are those of jobs; otherwise they are those of runs."""
        return self in (EventKind.SUBMITTED, EventKind.CHANGED, EventKind.DELETED)


EventMark = NewType("EventMark", int)
"""A position in the event log. No event is inserted at or before a position that was read."""


class Event(msgspec.Struct, frozen=True):
    mark: EventMark
    at: datetime
    kind: EventKind
    tenant_id: int
    ids: tuple[UUID, ...]

"""Requests and answers about the archive of history."""

from datetime import date, datetime
from typing import Annotated

from msgspec import Meta, Struct

from duetime.spec.fields import Length, Request
from duetime.wire.fields import PageQuery


class ArchivedDay(Struct, frozen=True, kw_only=True):
    """What a tenant has in the archive of one day."""

    tenant: str
    day: date
    rows: int
    """Attempts."""
    bytes: int
    files: int
    expires: date
    """The day on which the first file is deleted."""


class ArchivePage(Struct, frozen=True):
    items: tuple[ArchivedDay, ...]
    next_cursor: str | None
    """Pass it as `cursor` to get the next page; null at the end."""


class ArchivedRunsQuery(PageQuery, frozen=True):
    pass


class RestoreRequest(Request, frozen=True):
    keep: Annotated[Length, Meta(description="How long the database keeps what is restored.")] = "7d"
    cursor: str | None = None
    """Where the last answer ended; null at the beginning."""


class RestoreAnswer(Struct, frozen=True):
    rows: int
    """Rows that this request put back."""
    next_cursor: str | None
    """Repeat the request with this `cursor`; null: the day is restored."""


class ArchiveState(Struct, frozen=True, kw_only=True):
    """The state of a day, over all tenants."""

    day: date
    rows: int
    archived_at: datetime | None
    """When all of it was in files; null: not yet."""
    removed_at: datetime | None
    """When the database began to remove it; null: it has it."""
    restored_until: datetime | None
    problem: str | None
    """Why it could not be archived."""


class ArchiveStatus(Struct, frozen=True, kw_only=True):
    url: str | None
    """Where the files are; null if this server archives nothing."""
    used: bool
    """Whether history is removed only after it was archived."""
    waiting: tuple[date, ...]
    """Days that are due to be archived."""
    running: bool
    """Whether this server is archiving because of a request."""
    rows: int
    """Rows that it has archived since."""
    problem: str | None
    """What ended its work."""
    days: tuple[ArchiveState, ...]
    """The newest days that were archived, or could not be."""


class Erased(Struct, frozen=True):
    files: int

"""Bodies and queries that many endpoints share."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from duetime.spec.fields import PriorityName, Request

PageSize = Annotated[int, Meta(ge=1, le=200, description="Maximum number of items.")]
Cursor = Annotated[str, Meta(max_length=1600, description="The `next_cursor` of the previous page.")]


STALE = "duetime-stale"
"""The header with `stale_seconds`."""


class Stale(Struct, frozen=True, kw_only=True):
    """An answer that a replica of the database may give."""

    stale_seconds: float = 0.0
    """By how many seconds this may be behind, at most; 0: it was read from the primary. The header `Duetime-Stale` has
    the same number, and is missing then. A request with `Cache-Control: no-cache` is answered by the primary."""


class Nothing(Request, frozen=True):
    """An empty object, or no body."""


class PageQuery(Request, frozen=True):
    page_size: PageSize = 50
    cursor: Cursor | None = None


class InStreamView(Struct, frozen=True):
    """Messages in a stream that are not done: runs that wait or run there, and announcements of stored runs."""

    queue: str
    priority: PriorityName
    depth: int
    """Sampled about once a second."""
    oldest: datetime | None
    """When the oldest was published; null if the broker cannot tell."""
    shared: bool
    """Whether `depth` includes the runs of other tenants, because the broker has one stream for all."""

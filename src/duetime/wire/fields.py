"""Bodies and queries that many endpoints take."""

from typing import Annotated

from msgspec import Meta

from duetime.spec.fields import Request

PageSize = Annotated[int, Meta(ge=1, le=200, description="How many items at most.")]
Cursor = Annotated[str, Meta(max_length=200, description="The `next_cursor` of the page before.")]


class Nothing(Request, frozen=True):
    """An empty object, or no body at all."""


class PageQuery(Request, frozen=True):
    page_size: PageSize = 50
    cursor: Cursor | None = None

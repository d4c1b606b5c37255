"""Bodies and queries that many endpoints share."""

from typing import Annotated

from msgspec import Meta

from duetime.spec.fields import Request

PageSize = Annotated[int, Meta(ge=1, le=200, description="Maximum number of items.")]
Cursor = Annotated[str, Meta(max_length=200, description="The `next_cursor` of the previous page.")]


class Nothing(Request, frozen=True):
    """An empty object, or no body."""


class PageQuery(Request, frozen=True):
    page_size: PageSize = 50
    cursor: Cursor | None = None

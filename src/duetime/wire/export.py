"""Answers about the export of a tenant."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from duetime.spec.fields import Request


class ExportQuery(Request, frozen=True):
    cursor: Annotated[str, Meta(max_length=2000, description="The `next_cursor` of the previous page.")] | None = None


class ExportPlan(Struct, frozen=True):
    tenant: str
    number: int
    at: datetime
    sections: tuple[str, ...]
    """What to read, one after the other. Each becomes a file with one JSON object per line."""


class ExportPage(Struct, frozen=True):
    items: tuple[dict[str, Any], ...]
    next_cursor: str | None
    """Null: the section ends here."""

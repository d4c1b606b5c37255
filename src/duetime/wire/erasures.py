"""Requests and answers about the deletion of tenants."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from duetime.spec.fields import Length, Request
from duetime.wire.fields import PageQuery

ErasureStatus = Literal["WAITING", "CANCELLING", "REMOVING", "COMPACTING", "DONE"]


class DeletionRequest(Request, frozen=True):
    confirm: Annotated[str, Meta(max_length=100, description="The name of the tenant, once more.")]
    grace: Annotated[
        Length,
        Meta(description="For how long the deletion can be taken back. Until then the tenant is read-only."),
    ] = 0


class ErasureQuery(PageQuery, frozen=True):
    name: Annotated[
        str, Meta(max_length=100, description="Only erasures of a tenant that had this name when it was deleted.")
    ] = ""


class ErasureView(Struct, frozen=True, kw_only=True):
    number: int
    """The tenant's number, which is never used again. Its name is not kept."""
    tenant: str | None
    """Its name, until it is erased."""
    status: ErasureStatus
    requested_at: datetime
    requested_by: str
    """The name of the key that asked for it."""
    erase_at: datetime
    """Until then it can be taken back."""
    started_at: datetime | None
    finished_at: datetime | None
    removed: dict[str, int]
    """Rows by table, `archive files` and `stream messages`."""
    table: str | None
    """The table that is being looked through."""
    passes: int
    problem: str | None
    """What keeps it from going on; it is tried again."""


class ErasurePage(Struct, frozen=True):
    items: tuple[ErasureView, ...]
    next_cursor: str | None

"""The erasure of a tenant: everything that it owns is removed, in passes over all its tables and files.

A tenant that is scheduled for deletion is read-only until `erase_at`, and its deletion can be undone. Then its runs are
cancelled, and its rows, archived files and messages in streams are removed in small parts. A pass that finds nothing,
and that began a while after the tenant was closed, is the last one: by then every process knows that it is closed.
What is left of the tenant is its number, which is never used again, and how much of it was removed.
"""

from datetime import datetime
from hashlib import sha256
from uuid import UUID

import msgspec

from duetime.model.stored_enum import StoredEnum
from duetime.model.tenant import TenantState


class ErasureStep(StoredEnum):
    """The numbers are stored: never reuse one."""

    WAITING = 0
    """Until `erase_at`. It can be taken back."""
    CANCELLING = 1
    """Running runs were asked to stop."""
    REMOVING = 2
    COMPACTING = 3
    """The tenant is gone. What its rows have left in the database's file is overwritten."""
    DONE = 4


class ErasureProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the current pass is."""

    table: int = 0
    """The index of the current table in `TENANT_TABLES`."""
    after: UUID | None = None
    """The last key that was looked at, in a table that is looked through as a whole."""
    found: int = 0
    """Rows, files and messages that this pass has removed."""
    began: datetime | None = None
    """When this pass began."""
    passes: int = 0


class Erasure(msgspec.Struct, frozen=True):
    tenant_id: int
    name_hash: bytes
    state_before: TenantState
    requested_at: datetime
    requested_by: str
    """The name of the operator's key."""
    key_id: UUID | None
    erase_at: datetime
    step: ErasureStep
    started_at: datetime | None
    finished_at: datetime | None
    progress: ErasureProgress
    removed: dict[str, int]
    """Rows by table, files of the archive as `archive files`, messages of streams as `stream messages`."""
    problem: str | None
    """What keeps it from going on; it is tried again."""


def name_hash(tenant_id: int, name: str) -> bytes:
    """Whether a tenant had this name can be answered from this; what the name was cannot."""
    return sha256(f"tenant {tenant_id} {name}".encode()).digest()

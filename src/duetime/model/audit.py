"""The audit log: who did what to which object. Only ever added to."""

from datetime import datetime
from uuid import UUID

import msgspec


class AuditEntry(msgspec.Struct, frozen=True):
    """One act that is about to be recorded."""

    id: UUID
    """Drawn by whoever acts (`ids.new_id`): sorts by time."""
    tenant_id: int | None
    """None for what concerns no tenant, such as a root key."""
    key_id: UUID | None
    """The key that acted; None for the system itself."""
    actor: str
    """The name of that key, as it was then."""
    action: str
    """Such as `jobs.cancel`."""
    object: str
    """Such as `job_01k…`."""
    detail: str | None = None
    """What else there is to know; never a payload or a secret."""


class Audited(msgspec.Struct, frozen=True):
    """An entry of the log as it is read back."""

    entry: AuditEntry
    at: datetime

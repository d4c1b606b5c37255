"""The caller of a request."""

from datetime import datetime
from uuid import UUID

import msgspec

from duetime.model.access import Role
from duetime.model.job import DEFAULT_TENANT


class Caller(msgspec.Struct, frozen=True, gc=False):
    """The key of a request, and the tenant that it acts in."""

    key_id: UUID | None
    role: Role | None
    tenant_id: int
    name: str = ""
    queues: tuple[str, ...] = ()
    """The queues that a worker's key is bound to; empty: all."""
    expires_at: datetime | None = None
    networks: tuple[str, ...] = ()
    session_id: UUID | None = None
    """The browser session that the request used; None if it carried the key itself."""


ANONYMOUS = Caller(None, None, DEFAULT_TENANT)
"""The caller of an endpoint that needs no key."""

"""Who asks."""

from datetime import datetime
from uuid import UUID

import msgspec

from duetime.model.access import Role
from duetime.model.job import DEFAULT_TENANT


class Caller(msgspec.Struct, frozen=True, gc=False):
    """The key that a request came with, and the tenant that it acts in."""

    key_id: UUID | None
    role: Role | None
    tenant_id: int
    name: str = ""
    queues: tuple[str, ...] = ()
    """What a worker's key is bound to; empty: all."""
    expires_at: datetime | None = None
    networks: tuple[str, ...] = ()
    session_id: UUID | None = None
    """The browser's session that the key was used through; None: the request carries the key itself."""


NOBODY = Caller(None, None, DEFAULT_TENANT)
"""Whoever asks for what is open to everybody."""

"""The caller of a request."""

from datetime import datetime
from hashlib import blake2b
from uuid import UUID

import msgspec

from duetime.model.access import Role
from duetime.model.job import DEFAULT_TENANT
from duetime.model.scope import Scope


class Caller(msgspec.Struct, frozen=True, gc=False):
    """The key or token of a request, and the tenant that it acts in."""

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
    scope: Scope | None = None
    """The part of the tenant's jobs that it may see and control; None: all."""
    issuer_id: UUID | None = None
    """The issuer of the token that the request carried, instead of a key."""

    @property
    def counts_as(self) -> UUID | None:
        """Whose requests count together: those of a key, or of a user with tokens."""
        if self.issuer_id is None or self.scope is None:
            return self.key_id
        return UUID(bytes=blake2b(str(self.scope.owner).encode(), digest_size=16, key=self.issuer_id.bytes).digest())


ANONYMOUS = Caller(None, None, DEFAULT_TENANT)
"""The caller of an endpoint that needs no key."""

"""The caller of a request."""

from datetime import datetime
from hashlib import blake2b
from uuid import UUID

import msgspec

from duetime.model.access import Role
from duetime.model.job import DEFAULT_TENANT
from duetime.model.scope import Scope


class User(msgspec.Struct, frozen=True):
    """A person or a service that an identity provider vouches for (`model/identity.py`)."""

    id: UUID
    provider: str
    issuer: str
    subject: str
    email: str | None
    tenants: tuple[str, ...]
    """The tenants in which it has a role. Empty for `root`, which has one in every tenant."""


class Caller(msgspec.Struct, frozen=True):
    """The key, the token or the person of a request, and the tenant that it acts in."""

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
    user: User | None = None

    @property
    def holder_id(self) -> UUID | None:
        """The key or person whose browser sessions are the caller's own."""
        return self.key_id if self.user is None else self.user.id

    @property
    def counts_as(self) -> UUID | None:
        """Whose requests count together: those of a key, of a person, or of a user with tokens."""
        if self.user is not None:
            return self.user.id
        if self.issuer_id is None or self.scope is None:
            return self.key_id
        return UUID(bytes=blake2b(str(self.scope.owner).encode(), digest_size=16, key=self.issuer_id.bytes).digest())


ANONYMOUS = Caller(None, None, DEFAULT_TENANT)
"""The caller of an endpoint that needs no key."""

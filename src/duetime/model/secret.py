"""Secrets of a tenant, as stores keep them: sealed above the store."""

from datetime import datetime
from uuid import UUID

import msgspec

from duetime.model.access import Role


class SecretBinding(msgspec.Struct, frozen=True):
    """Where a secret may be sent, and which roles may use it in a job."""

    hosts: tuple[str, ...]
    """As `targets/secret_hosts.py` parses them. A secret is sent to no other host."""
    roles: tuple[str, ...] = ()
    """Empty: every role that may submit."""

    def may_be_named_by(self, role: Role | None) -> bool:
        """Whether a job of this role may use it; None is a process with direct database access."""
        if role is None or role is Role.ROOT or not self.roles:
            return True
        return role.name.lower() in self.roles


class SecretInfo(msgspec.Struct, frozen=True):
    """The public information about a secret."""

    name: str
    created_at: datetime
    changed_at: datetime
    binding: SecretBinding


class StoredSecret(msgspec.Struct, frozen=True):
    """A secret with its value, as it is sent."""

    value: bytes
    binding: SecretBinding


class SigningSecret(msgspec.Struct, frozen=True):
    """A secret that requests are signed with."""

    id: UUID
    value: bytes
    created_at: datetime
    expires_at: datetime | None
    """When it stops signing; None for the newest."""

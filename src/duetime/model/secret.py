"""Secrets of a tenant, as stores keep them: sealed above the store."""

from datetime import datetime
from uuid import UUID

import msgspec


class SecretInfo(msgspec.Struct, frozen=True):
    """What may be told of a secret."""

    name: str
    created_at: datetime
    changed_at: datetime


class SigningSecret(msgspec.Struct, frozen=True):
    """What requests are signed with."""

    id: UUID
    value: bytes
    created_at: datetime
    expires_at: datetime | None
    """When it stops to sign; None for the newest."""

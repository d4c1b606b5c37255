"""Browser sessions. A cookie carries a random token, and the store keeps its hash: the stored data is not enough to
make a cookie.

A session acts for a key, and ends with it, or for a person whom an identity provider vouches for. It also ends after a
time without use (`expires_at`, which moves with use), and at `ends_at` at the latest, which never moves. If the
settings have been changed to a shorter lifetime, that one counts for sessions that began before, too. A login link is a
token too; it is valid for one session.
"""

import secrets
from datetime import datetime, timedelta
from hashlib import sha256
from uuid import UUID

import msgspec

from duetime.model.access import ApiKey, Role
from duetime.model.identity import Identity

MOST_SESSIONS = 50
"""Sessions of one key; a new one beyond them ends the oldest."""
MOST_LINKS = 20
"""Unused login links of one key."""
LINK_LASTS = timedelta(hours=1)
MOST_AGENT = 200
_TOKEN = 32
_LENGTH = 43


class NewSession(msgspec.Struct, frozen=True):
    id: UUID
    key_id: UUID
    """The key, or the id of the person."""
    hash: bytes
    address: str
    agent: str
    identity: Identity | None = None
    tenant_ids: tuple[int, ...] = ()
    """The tenants that a person has a role in; none: those that a root key has, too."""


class Session(msgspec.Struct, frozen=True):
    """A session as it is read back."""

    id: UUID
    key_id: UUID
    """The key, or the id of the person."""
    key_name: str | None
    role: Role | None
    tenant: str | None
    """Of the key; None for a root key, and for a person."""
    address: str
    agent: str
    created_at: datetime
    last_seen_at: datetime
    """Precise to about a minute."""
    expires_at: datetime
    ends_at: datetime
    identity: Identity | None


class Opened(msgspec.Struct, frozen=True):
    """The session of a token, and the key or the person that it acts for: exactly one of them."""

    session_id: UUID
    began_at: datetime
    at: datetime
    """When it was read."""
    key: ApiKey | None
    identity: Identity | None


class SessionScope(msgspec.Struct, frozen=True):
    """Which sessions: those of a key, of a tenant's keys, or (neither) of all keys."""

    key_id: UUID | None = None
    tenant_id: int | None = None


EVERYWHERE = SessionScope()


def new_token() -> str:
    return secrets.token_urlsafe(_TOKEN)


def looks_like_token(text: str) -> bool:
    return len(text) == _LENGTH and text.isascii()


def token_hash(token: str) -> bytes:
    """The stored form of a token. It has 256 random bits, so it needs no slow hash."""
    return sha256(b"duetime token " + token.encode()).digest()


def agent_text(given: str) -> str:
    """A browser's name as it is stored and shown: short, and without terminal control characters."""
    return "".join(each if each.isprintable() else "?" for each in given[:MOST_AGENT])

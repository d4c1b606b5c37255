"""Browser sessions. A cookie carries a random token, and the store keeps its hash: the stored data is not enough to
make a cookie.

A session acts for a key, and ends with it. It also ends after a time without use (`expires_at`, which moves with use),
and at `ends_at` at the latest, which never moves. A login link is a token too; it is valid for one session.
"""

import secrets
from datetime import datetime, timedelta
from hashlib import sha256
from uuid import UUID

import msgspec

from duetime.model.access import ApiKey, Role

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
    hash: bytes
    address: str
    agent: str


class Session(msgspec.Struct, frozen=True):
    """A session as it is read back."""

    id: UUID
    key_id: UUID
    key_name: str
    role: Role
    tenant: str | None
    """None for a root key."""
    address: str
    agent: str
    created_at: datetime
    last_seen_at: datetime
    """Precise to about a minute."""
    expires_at: datetime
    ends_at: datetime


class Opened(msgspec.Struct, frozen=True):
    """The session of a token, and the key that it acts for."""

    session_id: UUID
    key: ApiKey


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

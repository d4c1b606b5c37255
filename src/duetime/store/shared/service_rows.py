"""Tenants, keys and entries of the audit log as they are read back, made from the rows of any store."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from duetime.errors import Conflict, NameTaken, NotFound
from duetime.ids import show
from duetime.model.access import ApiKey, Role
from duetime.model.audit import Audited, AuditEntry
from duetime.model.session import Session
from duetime.model.tenant import Tenant, TenantState
from duetime.store.rules.quotas import limits_of
from duetime.store.shared.job_rows import Fields

FIRST_ID = UUID(int=0)
"""Below every id there is."""
LAST_ID = UUID(int=(1 << 128) - 1)
"""Above every id there is."""
DEAD_KEYS = 1000
"""How many API keys of a tenant that cannot be used any more are kept, for people who look."""
PARTS_OF_KEYS = 20
"""How many parts of the old keys are looked at each time."""
KEYS_OF_LIMITS = timedelta(hours=1)
"""How long an unused key of a limit is kept."""
EVENTS = timedelta(minutes=10)
"""How long an event can be read."""
UNREAD_EVENTS = timedelta(days=1)
"""How long it stays when notifications have not come to it."""


def stored_tenant(row: Fields) -> Tenant:
    return Tenant(
        row["id"],
        row["name"],
        TenantState(row["state"]),
        row["tier"],
        row["weight"],
        limits_of(row),
        bool(row["encrypt_args"]),
        row["created_at"],
    )


def stored_key(row: Fields, queues: Sequence[str], networks: Sequence[str]) -> ApiKey:
    return ApiKey(
        row["id"],
        row["tenant_id"],
        Role(row["role"]),
        row["name"],
        row["hint"],
        tuple(queues),
        row["created_at"],
        row["expires_at"],
        row["revoked_at"],
        row["last_used_at"],
        tuple(networks),
    )


def stored_session(row: Fields) -> Session:
    return Session(
        row["id"],
        row["key_id"],
        row["key_name"],
        Role(row["role"]),
        row["tenant"],
        row["address"],
        row["agent"],
        row["created_at"],
        row["last_seen_at"],
        row["expires_at"],
        row["ends_at"],
    )


def audited(row: Fields) -> Audited:
    entry = AuditEntry(
        row["id"], row["tenant_id"], row["key_id"], row["actor"], row["action"], row["object"], row["detail"]
    )
    return Audited(entry, row["at"])


def no_tenant(name: str) -> NotFound:
    return NotFound(f"there is no tenant {name}", field="tenant")


def no_key(key_id: UUID) -> NotFound:
    return NotFound(f"there is no key {show('key', key_id)}")


def unusable_key() -> Conflict:
    return Conflict("this key cannot be used any more", remedy="create a new one")


def last_root_key() -> Conflict:
    return Conflict(
        "this is the last root key that can be used",
        field="key_id",
        remedy="make another one first: duetime keys create root NAME",
    )


def no_session(session_id: UUID) -> NotFound:
    return NotFound(f"there is no session {show('ses', session_id)}")


def taken(name: str | None) -> NameTaken:
    return NameTaken(f"there is a tenant {name!r} already", field="name", remedy="choose another name")


def no_secret(name: str) -> NotFound:
    return NotFound(f"there is no secret {name!r}", remedy=f"PUT /v1/secrets/{name}")


def no_payload(payload_id: UUID) -> NotFound:
    return NotFound(f"there is no payload {show('pay', payload_id)}")

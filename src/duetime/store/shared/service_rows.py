"""Tenants, keys and audit entries from the rows of either store."""

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
"""Below all ids."""
LAST_ID = UUID(int=(1 << 128) - 1)
"""Above all ids."""
DEAD_KEYS = 1000
"""How many revoked and expired API keys of a tenant are kept."""
NOTED_EVERY = timedelta(minutes=1)
"""How often the use of a key or session is recorded."""
PARTS_OF_KEYS = 20
"""How many parts of the old keys one call checks."""
KEYS_OF_LIMITS = timedelta(hours=1)
"""How long an unused key of a limit is kept."""
EVENTS = timedelta(minutes=10)
"""How long an event can be read."""
UNREAD_EVENTS = timedelta(days=1)
"""How long an event is kept that notifications have not processed."""


def stored_tenant(row: Fields) -> Tenant:
    return Tenant(
        id=row["id"],
        name=row["name"],
        state=TenantState(row["state"]),
        tier=row["tier"],
        weight=row["weight"],
        limits=limits_of(row),
        encrypt_args=row["encrypt_args"],
        created_at=row["created_at"],
    )


def stored_key(row: Fields) -> ApiKey:
    return ApiKey(
        id=row["id"],
        tenant_id=row["tenant_id"],
        role=Role(row["role"]),
        name=row["name"],
        hint=row["hint"],
        queues=tuple(row["queues"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
        networks=tuple(row["networks"]),
    )


def stored_session(row: Fields) -> Session:
    return Session(
        id=row["id"],
        key_id=row["key_id"],
        key_name=row["key_name"],
        role=Role(row["role"]),
        tenant=row["tenant"],
        address=row["address"],
        agent=row["agent"],
        created_at=row["created_at"],
        last_seen_at=row["last_seen_at"],
        expires_at=row["expires_at"],
        ends_at=row["ends_at"],
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
    return Conflict("this key was revoked or has expired", remedy="create a new one")


def last_root_key() -> Conflict:
    return Conflict(
        "this is the last usable root key",
        field="key_id",
        remedy="create another one first: duetime keys create root NAME",
    )


def no_session(session_id: UUID) -> NotFound:
    return NotFound(f"there is no session {show('ses', session_id)}")


def taken(name: str | None) -> NameTaken:
    return NameTaken(f"the tenant {name!r} already exists", field="name", remedy="choose another name")


def no_secret(name: str) -> NotFound:
    return NotFound(f"there is no secret {name!r}", remedy=f"PUT /v1/secrets/{name}")


def no_payload(payload_id: UUID) -> NotFound:
    return NotFound(f"there is no payload {show('pay', payload_id)}")

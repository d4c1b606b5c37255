"""Tenants, keys and audit entries from the rows of either store."""

from datetime import timedelta
from uuid import UUID

import msgspec

from duetime.errors import Conflict, NameTaken, NotFound
from duetime.ids import show
from duetime.model.access import ApiKey, Role
from duetime.model.audit import Audited, AuditEntry
from duetime.model.identity import Identity
from duetime.model.session import Session
from duetime.model.tenant import Tenant, TenantState
from duetime.store.rules.job_rows import Fields, from_row
from duetime.store.rules.quotas import limits_of

FIRST_ID = UUID(int=0)
"""An id that is below all others."""
LAST_ID = UUID(int=(1 << 128) - 1)
"""An id that is above all others."""
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
    return from_row(Tenant, row, state=TenantState(row["state"]), limits=limits_of(row))


def stored_key(row: Fields) -> ApiKey:
    lists = {"queues": tuple(row["queues"]), "networks": tuple(row["networks"])}
    return from_row(ApiKey, row, role=Role(row["role"]), **lists)


def stored_session(row: Fields) -> Session:
    role = None if row["role"] is None else Role(row["role"])
    return from_row(Session, row, role=role, identity=stored_identity(row))


def stored_identity(row: Fields) -> Identity | None:
    return None if row["identity"] is None else msgspec.json.decode(row["identity"], type=Identity)


def audited(row: Fields) -> Audited:
    return Audited(from_row(AuditEntry, row), row["at"])


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

"""Access control: roles, the actions they permit, and API keys as they are stored.

A key belongs to one tenant and one role; a root key belongs to no tenant and acts in any. One table defines what a role
may do, so that every entry point (API, dashboard) decides alike.
"""

from datetime import datetime
from enum import Enum, auto
from uuid import UUID

import msgspec

from duetime.model.scope import Scope, scope_of
from duetime.model.stored_enum import StoredEnum


class Role(StoredEnum):
    """The numbers are stored: never reuse one."""

    ROOT = 0
    """The platform's operator: all tenants."""
    ADMIN = 1
    OPERATOR = 2
    SUBMITTER = 3
    VIEWER = 4
    WORKER = 5


class Action(Enum):
    READ = auto()
    """Jobs, runs, dead letters, queues, workers, tasks, events; previews of schedules."""
    SUBMIT = auto()
    """Create jobs and payloads."""
    CONTROL = auto()
    """Change, cancel, pause, trigger, retry, replay and delete."""
    STEER_QUEUES = auto()
    WORK = auto()
    """Register as a worker, claim, complete; read a payload under a lease."""
    ERASE = auto()
    """Remove a payload that is still referenced."""
    MANAGE_DEFAULTS = auto()
    """Change the options that all jobs of the tenant get by default."""
    MANAGE_KEYS = auto()
    READ_AUDIT = auto()
    EXPORT = auto()
    """Read everything that the tenant owns."""
    MANAGE_TENANTS = auto()


_IN_A_TENANT = frozenset(Action) - {Action.MANAGE_TENANTS}

ALLOWED: dict[Role, frozenset[Action]] = {
    Role.ROOT: frozenset(Action),
    Role.ADMIN: _IN_A_TENANT,
    Role.OPERATOR: frozenset({Action.READ, Action.SUBMIT, Action.CONTROL, Action.STEER_QUEUES}),
    Role.SUBMITTER: frozenset({Action.READ, Action.SUBMIT}),
    Role.VIEWER: frozenset({Action.READ}),
    Role.WORKER: frozenset({Action.WORK}),
}


SCOPED_ROLES = (Role.OPERATOR, Role.SUBMITTER, Role.VIEWER)
"""The roles of keys and tokens with a scope. The others manage what belongs to the whole tenant."""


def may(role: Role, action: Action) -> bool:
    return action in ALLOWED[role]


class NewKey(msgspec.Struct, frozen=True):
    """An API key that is about to be stored: only the hash of its text."""

    id: UUID
    tenant_id: int | None
    """None exactly for a root key."""
    role: Role
    name: str
    hash: bytes
    hint: str
    """The first and last characters of the text, to distinguish keys."""
    queues: tuple[str, ...] = ()
    """The queues that a worker key is bound to; none: all queues of its tenant."""
    expires_at: datetime | None = None
    networks: tuple[str, ...] = ()
    """The networks from which it is accepted; none: all."""
    owner: str | None = None
    tag: str | None = None
    """Only jobs of this owner, with this tag (`model/scope.py`). Except for workers, its queue is in `queues`."""


class ApiKey(msgspec.Struct, frozen=True):
    """An API key as it is read back."""

    id: UUID
    tenant_id: int | None
    role: Role
    name: str
    hint: str
    queues: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    """Precise to about a minute."""
    owner: str | None
    tag: str | None
    """Both without a default: a statement that does not read them must not make a key without a scope."""
    networks: tuple[str, ...] = ()

    @property
    def scope(self) -> Scope | None:
        """The part of its tenant's jobs that it may see and control; None: all. A worker is bound in what it claims."""
        if self.owner is None and self.tag is None and not self.queues:
            return None  # most keys have none
        queue = self.queues[0] if self.queues and self.role is not Role.WORKER else None
        return scope_of(owner=self.owner, tag=self.tag, queue=queue)

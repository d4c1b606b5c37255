"""A worker: one process session that leases runs."""

from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from duetime.model.defaults import Defaults
from duetime.model.target import is_target


class WorkerInfo(msgspec.Struct, frozen=True):
    """What a worker says of itself when it registers; its id is fresh at every start."""

    id: UUID
    name: str
    tasks: tuple[str, ...]
    queues: tuple[str, ...]
    slots: int
    tenant_id: int | None = None
    """The only tenant that it works for; None: all of them, as one who may reach the database does."""
    version: str = ""
    """What it is made of, as it says itself, such as `duetime 0.1.0`."""
    defaults: dict[str, Defaults] = {}
    """What its tasks say of their jobs; of those that are not named here, what was told before stays."""
    key_id: UUID | None = None
    """The API key that opened the session of a remote worker."""
    token_hash: bytes | None = None
    """The hash of that session's token; None: no request may speak for this worker."""


class Worker(msgspec.Struct, frozen=True):
    """A worker as it is read back."""

    id: UUID
    name: str
    tasks: tuple[str, ...]
    queues: tuple[str, ...]
    slots: int
    started_at: datetime
    lease_until: datetime
    tenant_id: int | None
    version: str
    heard_at: datetime
    key_id: UUID | None = None
    token_hash: bytes | None = None
    """As `WorkerInfo` has them; lists leave both out."""

    @property
    def runs_tasks(self) -> bool:
        """Whether it has tasks of somebody's app: a server's own has targets only."""
        return any(not is_target(task) for task in self.tasks)


class Renewal(msgspec.Struct, frozen=True):
    """The answer to a heartbeat."""

    lease_until: datetime
    cancelled: tuple[UUID, ...] = ()
    """Runs of this worker that somebody asked to stop."""
    freed: int = 0
    """Runs that the worker did not list for a whole lease, and that wait again."""


class Seat(msgspec.Struct, frozen=True):
    """A worker that waits for runs while somebody else claims for it."""

    worker_id: UUID
    claim_no: int
    room: int


class Lost(msgspec.Struct, frozen=True):
    """A run whose worker is gone, or does not enforce its timeout: what is needed to decide what follows."""

    run_id: UUID
    fence: int
    attempt: int
    lost: int
    options: bytes | None
    cancel_requested: bool
    timed_out: bool
    ran_for: timedelta
    handed_over: bool = False
    """It is in the hands of whoever its worker called."""
    not_held: bool = False
    """Its worker lives and does not hold it."""

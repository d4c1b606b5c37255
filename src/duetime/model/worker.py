"""A worker: one process session that leases runs."""

from datetime import datetime, timedelta
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

import msgspec

from duetime.model.defaults import Defaults
from duetime.model.run import RunState
from duetime.model.target import is_target

PAST_WORKERS = timedelta(days=1)
"""How long a worker that ended stays visible."""
MOST_PAST_WORKERS = 100
"""How many of them a tenant keeps (`schema.sql`)."""


class WorkerInfo(msgspec.Struct, frozen=True):
    """The registration of a worker; its id is new at every start."""

    id: UUID
    name: str
    tasks: tuple[str, ...]
    queues: tuple[str, ...]
    slots: int
    tenant_id: int | None = None
    """The only tenant that it works for; None: all, for a worker with direct database access."""
    version: str = ""
    """The software version that it reports, such as `duetime 0.1.0`."""
    defaults: dict[str, Defaults] = {}
    """The job defaults of its tasks. For tasks that are not named here, earlier defaults and schemas stay."""
    schemas: dict[str, bytes] = {}
    """The JSON schemas of the arguments of these tasks, as far as they are known."""
    key_id: UUID | None = None
    """The API key that opened the session of a remote worker."""
    token_hash: bytes | None = None
    """The hash of that session's token; None: no request may act for this worker."""


class Declaration(NamedTuple):
    """What a worker declares about a task, as it is stored."""

    name: str
    said: bytes | None
    arguments: bytes | None
    digest: str | None


def declarations(worker: WorkerInfo) -> list[Declaration]:
    return [
        Declaration(name, defaults, schema, None if schema is None else digest_of(schema))
        for name, defaults in worker.defaults.items()
        for schema in (worker.schemas.get(name),)
    ]


def digest_of(schema: bytes) -> str:
    """Names a schema by its content."""
    return blake2b(schema, digest_size=12).hexdigest()


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
    """As in `WorkerInfo`; lists omit both."""
    consumes: tuple[str, ...] = ()
    """The streams that it consumes, at brokers whose streams have parts."""

    @property
    def runs_tasks(self) -> bool:
        """Whether it provides tasks of an app: a server's own worker has only targets."""
        return any(not is_target(task) for task in self.tasks)


class RunFate(NamedTuple):
    """What became of a run that a worker held."""

    run_id: UUID
    task: str
    state: RunState


class PastWorker(msgspec.Struct, frozen=True):
    """A worker that left, or that was lost."""

    id: UUID
    name: str
    tasks: tuple[str, ...]
    queues: tuple[str, ...]
    slots: int
    started_at: datetime
    heard_at: datetime
    version: str
    ended_at: datetime
    lost: bool
    """Whether its lease expired; otherwise it left by itself."""
    held: int = 0
    """How many runs of the tenant it held then."""
    runs: tuple[RunFate, ...] = ()
    """Some of them."""

    @property
    def reason(self) -> str:
        if self.lost:
            return f"it sent no heartbeat after {self.heard_at:%Y-%m-%d %H:%M:%S} UTC, and its lease expired"
        return "it stopped and left its runs" if self.held else "it stopped after its runs had ended"


class Renewal(msgspec.Struct, frozen=True):
    """The answer to a heartbeat."""

    lease_until: datetime
    cancelled: tuple[UUID, ...] = ()
    """Runs of this worker whose cancellation was requested."""
    freed: int = 0
    """Runs that the worker did not list for a whole lease, and that are ready again."""


class Seat(msgspec.Struct, frozen=True):
    """A worker that waits for runs while the server claims for it."""

    worker_id: UUID
    claim_no: int
    room: int


class Lost(msgspec.Struct, frozen=True):
    """A run whose worker is lost, or does not enforce its timeout, with what is needed to decide its result."""

    run_id: UUID
    fence: int
    attempt: int
    lost: int
    options: bytes | None
    cancel_requested: bool
    timed_out: bool
    ran_for: timedelta
    handed_over: bool = False
    """Whether the receiver of the call holds it now."""
    not_held: bool = False
    """Whether its worker is alive and does not hold it."""
    late: str | None = None
    """Why it is skipped: it waited too long, and no worker has started it."""

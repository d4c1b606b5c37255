"""A job: a task, its arguments, a schedule and policies."""

from datetime import datetime
from functools import lru_cache
from typing import Literal, NamedTuple
from uuid import UUID

import msgspec

from duetime.ids import once_run_id, ready_run_id, show
from duetime.model.dependency import DependsOn
from duetime.model.lane import LaneKey, Tier
from duetime.model.policy import Misfire, Overlap
from duetime.model.retry import RetryPolicy
from duetime.model.schedule import Once, Schedule
from duetime.model.stored_enum import StoredEnum

DEFAULT_QUEUE = "default"
DEFAULT_TENANT = 1
INTERNAL_TENANT = 0
"""The owner of the jobs that a node creates for itself. It has no keys, and appears in no list."""


Via = Literal["store", "stream"]


class JobState(StoredEnum):
    """The state of a job. The numbers are stored: never reuse one."""

    ACTIVE = 0
    PAUSED = 1
    ENDED = 2
    CANCELLED = 3


class Options(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options of a job beyond task, arguments and schedule. Stored only where they differ from the default."""

    name: str | None = None
    tags: tuple[str, ...] = ()
    retry: RetryPolicy = RetryPolicy()
    at_most_once: bool = False
    """Never start twice: a lost attempt ends the run."""
    key: str | None = None
    misfire: Misfire = Misfire()
    overlap: Overlap = "allow"
    jitter: float = 0.0
    """Seconds: each fire is delayed by up to this, equally on every node that computes it."""
    max_runs: int | None = None
    owner: str | None = None
    """The user of the tenant who owns the job."""
    payload_ref: str | None = None
    """Where its payload is: a stored payload (`pay_…`), or any text that the task interprets."""
    replays: str | None = None
    """The id of the run that this one repeats."""
    follows: str | None = None
    """The id of the run whose end created this one."""
    concurrency_key: str | None = None
    """At most `concurrency` runs with this key run at once, across all jobs of the tenant."""
    concurrency: int = 1
    rate_key: str | None = None
    """At most `rate` (such as 100/m) runs with this key start, across all jobs of the tenant."""
    rate: str | None = None
    breaker_key: str | None = None
    """The breaker of its runs, instead of that of its task: the host that they call."""
    warn_after: float | None = None
    """Seconds after which a run is reported as slow; it is not stopped."""
    expires_in: float | None = None
    """Seconds after its due time in which a run must start; after that it is skipped."""
    retention: float | None = None
    """Seconds for which the database keeps its ended runs."""
    archive_retention: float | None = None
    """Seconds for which the archive keeps its ended runs; 0: they are not archived."""
    traceparent: str | None = None
    """The trace that the run of a one-off job belongs to."""
    trace_link: str | None = None
    """The trace that a recurring job was submitted in; its runs have their own traces."""

    @property
    def is_keyed(self) -> bool:
        """Whether its runs have their own limits, so that they are in a separate lane."""
        return self.concurrency_key is not None or self.rate_key is not None or self.breaker_key is not None

    @property
    def is_decided_when_due(self) -> bool:
        """Whether firing this job needs a decision at its due time, so that it is never fired ahead."""
        return self.overlap != "allow" or self.max_runs is not None or self.misfire.mode == "skip"


CARRIED_OPTIONS = frozenset(
    {
        "name",
        "tags",
        "retry",
        "owner",
        "payload_ref",
        "warn_after",
        "expires_in",
        "retention",
        "archive_retention",
        "traceparent",
    }
)
"""The fields of `Options` that a run in a stream may have: nothing has to read them before a worker has the message. A
job that sets any other field goes to the store."""
DEFAULT_OPTIONS = Options()
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Options)


def encode_options(options: Options) -> bytes | None:
    return None if options == DEFAULT_OPTIONS else _encoder.encode(options)


# Newer code may have stored more than this code knows. Options that cannot be read at all allow no retry.
UNREADABLE = Options(retry=RetryPolicy(retries=0, lost_retries=0))


@lru_cache(maxsize=4096)
def decode_options(body: bytes | None) -> Options:
    """Never raises: one unreadable row must not stop a worker or a reaper."""
    if body is None:
        return DEFAULT_OPTIONS
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, ValueError):
        return UNREADABLE


class Said(NamedTuple):
    """What the moment of a one-off was computed from, if the same words mean another moment on another day."""

    option: Literal["when", "run_in"]
    text: str
    zone: str | None

    def __str__(self) -> str:
        return f"{self.text} in {self.zone}"


def lane_of(tenant_id: int, queue: str, tier: int, task: str, options: bytes | None) -> LaneKey:
    """The lane for the runs of a job."""
    return LaneKey(tenant_id, queue, tier, task, keyed=options is not None and decode_options(options).is_keyed)


def schedule_seed(key: str | None, job_id: UUID) -> str:
    """The seed for the values of `H` in a job's cron line: its key, or its id if it has none."""
    return show("job", job_id) if key is None else f"key {key}"


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A validated job that is about to be stored."""

    id: UUID
    lane: LaneKey
    schedule: Schedule
    args: bytes
    options: bytes | None = None
    timeout_ms: int | None = None
    key: str | None = None
    idempotency_key: str | None = None
    fingerprint: bytes = b""
    """A hash of everything the caller asked for: decides whether two requests with one key are the same."""
    said: Said | None = None
    depends_on: DependsOn | None = None
    """What it waits for."""
    request_fingerprint: bytes | None = None
    """A hash of the request, if the request contained more than this job, or left values to the task's defaults. An
    idempotency key is bound to this hash then. The job that a `key` names is the same in any request."""
    by_nonce: bool = False
    """Whether its idempotency key is a nonce (`model/nonce.py`), from which its id was computed."""
    lands: bool = False
    """Whether its run may be in a stream: then its id is spent where it is stored, as if it had landed."""

    def first_run_id(self) -> UUID:
        """The id of the run of a one-off job that is created directly as a run."""
        at = self.schedule.at if isinstance(self.schedule, Once) else None
        return ready_run_id(self.id) if at is None else once_run_id(self.id, at)


class Submitted(msgspec.Struct, frozen=True, gc=False):
    """The result of a submission."""

    job_id: UUID
    next_run: datetime | None
    run_id: UUID | None = None
    """Set if the job's run exists already."""
    created: bool = True
    """False when a key or an idempotency key led to an existing job."""
    note: str | None = None
    """A warning for the caller, such as a time in the past."""
    replayed: bool = False
    """Whether an idempotency key led to an earlier answer."""
    via: Via = "store"
    """Whether its run is a message in a stream, or a row in the store."""


class Job(msgspec.Struct, frozen=True):
    """A job as it is read back."""

    id: UUID
    tenant_id: int
    task: str
    queue: str
    tier: Tier
    schedule: Schedule
    state: JobState
    next_run: datetime | None
    args: bytes
    options: Options
    timeout_ms: int | None
    version: int
    created_at: datetime
    problem: str | None = None
    """Why the job was set aside, if it could not be processed."""
    made: int = 0
    """How many occurrences became runs."""
    missed: int = 0
    """How many occurrences were skipped, each recorded in history with its reason."""
    args_problem: str | None = None
    """Why its arguments cannot be decrypted here."""

"""Carried runs: a run that was submitted plain and due now to a stream queue exists only as a message in the stream.

It ends in the store once, or *lands* there: it becomes a row of `runs`, and the store owns it from then on.
"""

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from uuid import UUID

import msgspec

from duetime.model.attempt import Claimed
from duetime.model.job import CARRIED_OPTIONS, NewJob, Options, decode_options
from duetime.model.lane import LaneKey
from duetime.model.schedule import NOW, After, Cron, Every, Once, RRule, Schedule


class CarriedRun(msgspec.Struct, frozen=True, gc=False):
    """A run in a stream, with everything that a worker or the store needs of it. Moments are microseconds."""

    run_id: UUID
    job_id: UUID
    lane: LaneKey
    due: int
    args: bytes
    options: bytes | None
    timeout_ms: int | None

    def claimed(
        self,
        started: int,
        lane_id: int = 0,
        *,
        args: bytes | None = None,
        problem: str | None = None,
        key_unknown: bool = False,
    ) -> Claimed:
        """As it would be claimed for the first time, with `args` in place of sealed ones."""
        return Claimed(
            self.run_id,
            self.job_id,
            lane_id,
            fence=1,
            attempt=1,
            lost=0,
            due=self.due,
            ready=self.due,
            started=started,
            args=self.args if args is None else args,
            options=self.options,
            timeout_ms=self.timeout_ms,
            checkpoint=None,
            args_problem=problem,
            key_unknown=key_unknown,
        )


def why_stored(job: NewJob) -> str | None:
    """The option that a stream cannot carry, because it needs the store; None if the job is plain."""
    if job.schedule is not NOW:
        return _schedule_option(job.schedule)
    if job.depends_on is not None:
        return "depends_on"
    if job.key is not None:
        return "key"
    if job.idempotency_key is not None and not job.by_nonce:
        return "idempotency_key"
    return None if job.options is None else _needs_store(job.options)


@lru_cache(maxsize=4096)
def _needs_store(body: bytes) -> str | None:
    return option_of_store(decode_options(body))


def option_of_store(options: Options) -> str | None:
    """The first option that a stream cannot carry: one that is set, and that `CARRIED_OPTIONS` does not declare."""
    if options.at_most_once:
        return "delivery"  # the start of a run in a stream is not fenced
    if options.payload_ref is not None and options.payload_ref.startswith("pay_"):
        return "payload_ref"  # only a row keeps the payload from being removed
    return next((name for name, usual in _not_carried(type(options)) if getattr(options, name) != usual), None)


@lru_cache
def _not_carried(kind: type[Options]) -> tuple[tuple[str, object], ...]:
    """The other options, and their defaults."""
    usual = kind()
    return tuple((name, getattr(usual, name)) for name in kind.__struct_fields__ if name not in CARRIED_OPTIONS)


def _schedule_option(schedule: Schedule) -> str:
    if isinstance(schedule, Once):
        return "run_at" if schedule.delay is None else "run_in"
    return {Cron: "cron", Every: "every", RRule: "rrule", After: "after"}[type(schedule)]


class CarriedEnd(msgspec.Struct, frozen=True, gc=False):
    """The success of a carried run that has not landed. Every other end lands the run first."""

    run: CarriedRun
    started: int
    result: bytes | None = None
    logs: bytes | None = None


class Landed(Enum):
    """How a carried run enters the store, unless it is running: see `UnderClaim`."""

    WAITING = "waiting"
    """It was not started: it waits in its lane."""
    SUSPECT = "suspect"
    """It was redelivered: the worker that held it may have died of it. It waits in a trial lane, with one loss."""


class UnderClaim(msgspec.Struct, frozen=True):
    """How carried runs enter the store that run in the worker that lands them: with fence 1 and attempt 1."""

    worker_id: UUID
    claim_no: int
    started: Sequence[int] | None = None
    """Since when each runs, in microseconds; None: since it was due."""


UNREADABLE = "unreadable://"
"""Stands for the address of a broker that is encrypted with a key that this process does not have."""


class StreamSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the runs of a queue go through a stream."""

    address: str
    """`redis://…`, `kafka://…`, `sqs://…` or `amqp://…`."""
    only: bool = False
    """Refuse runs that cannot be carried, instead of storing them."""
    fallback: bool = False
    """Store runs while the broker is unavailable, instead of refusing them."""
    max_depth: int | None = None
    """Refuse runs while more messages are in the stream."""
    replicas: int | None = None
    """How many replicas must have a message before it is accepted, where the broker leaves that to the client."""


class StreamQueue(msgspec.Struct, frozen=True):
    """A generation of a tenant's queue that goes through a stream. A change of the settings' address begins a new one;
    earlier generations are consumed until they are empty."""

    tenant_id: int
    queue: str
    generation: int
    settings: StreamSettings
    current: bool
    """Whether runs are published to it."""
    age: float
    """Seconds since it became, or ceased to be, current."""
    paused: bool = False
    """Whether the queue is paused or its tenant is suspended: nothing is fetched from it."""

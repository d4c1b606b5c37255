"""Carried runs: a run that was submitted plain and due now to a stream queue exists only as a message in the stream.

It ends in the store once, or *lands* there: it becomes a row of `runs`, and the store owns it from then on.
"""

from enum import Enum
from uuid import UUID

import msgspec

from duetime.model.lane import LaneKey


class CarriedRun(msgspec.Struct, frozen=True, gc=False):
    """A run in a stream, with everything that a worker or the store needs of it. Moments are microseconds."""

    run_id: UUID
    job_id: UUID
    lane: LaneKey
    due: int
    args: bytes
    options: bytes | None
    timeout_ms: int | None


class CarriedEnd(msgspec.Struct, frozen=True, gc=False):
    """The success of a carried run that has not landed. Every other end lands the run first."""

    run: CarriedRun
    started: int
    result: bytes | None = None
    logs: bytes | None = None


class Landed(Enum):
    """How a carried run enters the store."""

    WAITING = "waiting"
    """It was not started: it waits in its lane."""
    SUSPECT = "suspect"
    """It was redelivered: the worker that held it may have died of it. It waits in a trial lane, with one loss."""
    RUNNING = "running"
    """It runs in the worker that lands it, under a claim of that worker, with fence 1 and attempt 1."""


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

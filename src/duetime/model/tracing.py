"""How a job stores the trace that it was submitted in, and what a run's spans get from it."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from uuid import UUID

import msgspec

from duetime.model.attempt import Claimed
from duetime.model.job import NewJob, Options, decode_options, encode_options
from duetime.model.lane import LaneKey
from duetime.model.schedule import Once
from duetime.telemetry.traces import Message, Origin, Tracer


def traced(
    tracer: Tracer | None, jobs: Sequence[NewJob], parent: str | None = None
) -> AbstractContextManager[Sequence[NewJob]]:
    """These jobs, with the span of their submission, which the block is. Their fingerprints stay the same: the same
    request in another trace is the same request."""
    return nullcontext(jobs) if tracer is None or not jobs else _traced(tracer, jobs, parent)


@contextmanager
def _traced(tracer: Tracer, jobs: Sequence[NewJob], parent: str | None) -> Iterator[Sequence[NewJob]]:
    with tracer.submitting(jobs[0].lane.queue, len(jobs), parent) as traceparent:
        yield [_remembering(job, traceparent) for job in jobs]


def message_of(run: Claimed, lane: LaneKey) -> Message:
    return make_message(run.run_id, run.job_id, lane, run.options)


def make_message(run_id: UUID, job_id: UUID, lane: LaneKey, options: bytes | None) -> Message:
    found = decode_options(options)
    origin = Origin(found.traceparent, found.trace_link)
    return Message(run_id, job_id, lane.tenant_id, lane.queue, lane.task, origin)


def stored_traceparent(run: Claimed) -> str | None:
    """The trace that a run belongs to by its submission, if there is no span for its attempt."""
    return None if run.options is None else decode_options(run.options).traceparent


def _remembering(job: NewJob, traceparent: str) -> NewJob:
    options: Options = decode_options(job.options)
    if isinstance(job.schedule, Once):
        options = msgspec.structs.replace(options, traceparent=traceparent)
    else:
        options = msgspec.structs.replace(options, trace_link=traceparent)
    return msgspec.structs.replace(job, options=encode_options(options))

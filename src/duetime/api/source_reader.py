"""The source reader creates jobs from messages of other programs.

Any server may read a source; a lease in the store makes it one at a time. The order is: store the jobs, keep how far
the source was read (`keep_source`), tell the broker. A process may die between any two of these steps. Then the next
reader meets messages whose jobs exist, and recognises them by their idempotency keys. Where messages have an order, the
store's marks also cover what keys no longer remember: the broker's own offsets decide nothing.

A message that cannot become a job is recorded and skipped, or stops its source, as the source says. Everything that may
pass (a limit, a full queue, a store or broker that is away) makes the source wait with its messages.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from duetime.api.caller import Caller
from duetime.api.decoding import fit, read_json
from duetime.api.problems import RATE_LIMITED, Problem
from duetime.api.service import Service
from duetime.engine.submit_batcher import ABOUT_ONE_JOB
from duetime.errors import (
    DuetimeError,
    InvalidInput,
    KeyInFlight,
    KeyReused,
    Overloaded,
    QuotaExceeded,
    StoreUnavailable,
    reason_of,
)
from duetime.ids import new_id
from duetime.model.access import Role
from duetime.model.failure import bounded
from duetime.model.job import NewJob, Submitted
from duetime.model.source import (
    LONGEST_ERROR,
    MOST_ERRORS,
    MessageValues,
    SourceError,
    SourceProgress,
    StoredSource,
    message_key,
)
from duetime.model.tenant import Tenant
from duetime.process.ending import end_tasks
from duetime.process.slices import MOST_SECONDS, Slices
from duetime.streams.external.protocol import Received, Receiver
from duetime.targets.address_guard import AddressRefused, without_addresses
from duetime.targets.receive import Receivers
from duetime.telemetry.meters import Meters
from duetime.wire.jobs import JobRequest

log = logging.getLogger("duetime.sources")

_INTERVAL = 1.0
_LEASE = timedelta(seconds=15)
_RENEW = 4.0
"""Seconds after which a reader that waits renews its lease."""
_WAIT = 3.0
"""Seconds to wait for a message."""
_TOGETHER = 500
_LONGEST_PAUSE = 30.0
_MOST_MARKS = 5000
_ROOM = 64 * 1024
"""Bytes of a message beyond the largest arguments of a job."""
_PASSING = (StoreUnavailable, QuotaExceeded, Overloaded, KeyInFlight)


class _Lost(Exception):
    """Another node reads the source, or it was changed, paused or deleted."""


class SourceReader:
    def __init__(self, service: Service, meters: Meters, receivers: Receivers | None = None) -> None:
        self._service = service
        self._meters = meters
        self._receivers = receivers or Receivers(service.targets.brokers, service.vault)
        self._holder = new_id()
        self._reading: dict[tuple[int, str, int], asyncio.Task[None]] = {}

    async def tick(self) -> float:
        """Read every source that no other node reads, and stop reading those that were changed."""
        found = {
            (each.tenant_id, each.source.name, each.version): each
            for each in await self._service.store.sources.sources()
            if not each.paused and not each.stopped
        }
        for key, task in list(self._reading.items()):
            if task.done():
                del self._reading[key]
                if not task.cancelled():
                    task.result()
            elif key not in found:
                task.cancel()
        for key, stored in found.items():
            if key not in self._reading:
                marks = await self._service.store.sources.take_source(stored, self._holder, _LEASE)
                if marks is not None:
                    one = _OneSource(self._service, self._meters, self._receivers, stored, self._holder, marks)
                    name = f"duetime source {stored.source.name}"
                    self._reading[key] = asyncio.create_task(one.run(), name=name)
        return _INTERVAL

    async def close(self) -> None:
        reading, self._reading = self._reading, {}
        await end_tasks(reading.values())


class _OneSource:
    """A source, for as long as this node reads it."""

    def __init__(
        self,
        service: Service,
        meters: Meters,
        receivers: Receivers,
        stored: StoredSource,
        holder: UUID,
        marks: dict[str, str],
    ) -> None:
        self._service = service
        self._meters = meters
        self._receivers = receivers
        self._stored = stored
        self._source = stored.source
        self._tenant_id = stored.tenant_id
        self._holder = holder
        self._marks = marks
        self._errors = list(stored.errors)
        self._who = Caller(None, Role.ROOT, stored.tenant_id, f"source {stored.source.name}")

    async def run(self) -> None:
        pause = 0.5
        try:
            while True:
                receiver: Receiver | None = None
                try:
                    receiver = await self._receivers.open(self._tenant_id, self._source.broker, self._marks)
                    while True:
                        await self._round(receiver)
                        pause = 0.5
                except _Lost:
                    raise
                except Exception as error:
                    expected = isinstance(error, (DuetimeError, AddressRefused, OSError))
                    reason = bounded(without_addresses(reason_of(error)), LONGEST_ERROR)
                    log.warning("source %s waits: %s", self._source.name, reason, exc_info=not expected)
                    await self._pause(pause, reason)
                    pause = min(2 * pause, _LONGEST_PAUSE)
                finally:
                    if receiver is not None:
                        await receiver.close()
        except _Lost:
            return
        finally:
            with suppress(StoreUnavailable):
                await self._service.store.sources.release_source(self._stored, self._holder)

    async def _round(self, receiver: Receiver) -> None:
        messages: Sequence[Received] = await receiver.fetch(await self._most(), _WAIT)
        self._marks = {**receiver.marks, **self._marks}
        if len(self._marks) > _MOST_MARKS:
            self._marks = {part: self._marks[part] for part in receiver.marks}
        if not messages:
            await self._keep(SourceProgress(self._marks))
            return
        jobs, bad = await self._made(messages)
        stops = self._source.on_bad == "stop"
        if bad and stops:
            jobs = {place: job for place, job in jobs.items() if place < min(bad)}
        made = await self._stored_jobs(jobs, bad, receiver, messages)
        stopper = None
        if bad and stops:
            # It stays at the broker, with everything after it.
            first = min(bad)
            stopper = (messages[first].message_id, bad[first])
            messages, bad = messages[:first], {}
        await self._finish(receiver, messages, made, bad, stopper)

    async def _most(self) -> int:
        """A tenant with a limit is not given more at once than it may submit in a second."""
        tenant = await self._service.gate.tenant(self._tenant_id)
        rate = tenant.limits.submissions_per_second
        return _TOGETHER if rate is None else max(1, min(_TOGETHER, int(rate)))

    async def _made(self, messages: Sequence[Received]) -> tuple[dict[int, NewJob], dict[int, str]]:
        """The jobs of these messages by their place, and what is wrong with the others."""
        service, template = self._service, self._source.job
        task = template.get("task")
        tenant = await service.gate.tenant(self._tenant_id)
        tasks = [task] if isinstance(task, str) else []
        maker = await service.job_maker(tenant, tasks, now=await service.store.now())
        jobs: dict[int, NewJob] = {}
        bad: dict[int, str] = {}
        slices = Slices(MOST_SECONDS)
        for place, message in enumerate(messages):
            await slices.yield_if_due()
            try:
                if len(message.body) > service.settings.max_payload + _ROOM:
                    raise InvalidInput(f"the body has {len(message.body):,} bytes, which are too many")
                values = MessageValues(message.message_id, message.key, message.headers, message.body, read_json)
                request: JobRequest = fit(values.job(template), JobRequest)
                jobs[place] = maker.make(request, idempotency_key=message_key(self._source, message.message_id, values))
            except (Problem, InvalidInput) as error:
                bad[place] = _said(error)
            except Exception as error:  # a message must not stop the others, whatever it holds
                log.exception("a message of source %s cannot be read", self._source.name)
                bad[place] = f"cannot be read: {type(error).__name__}"
        return jobs, bad

    async def _stored_jobs(
        self, jobs: dict[int, NewJob], bad: dict[int, str], receiver: Receiver, messages: Sequence[Received]
    ) -> dict[int, Submitted]:
        """Store these jobs, however long it takes. Those that cannot be stored become bad messages."""
        first: dict[str | None, int] = {}
        for place, job in jobs.items():
            first.setdefault(job.idempotency_key, place)
        left = {place: jobs[place] for place in first.values()}
        stored: dict[int, Submitted] = {}
        payer: Tenant | None = None
        pause = 0.5
        while left:
            try:
                if payer is None:
                    tenant = await self._service.gate.tenant(self._tenant_id)
                    await self._service.limits.submit(tenant, self._who, len(left))
                    payer = tenant
                await self._submit(left, bad, stored)
            except _PASSING as error:
                await self._pause(pause, _said(error), receiver, messages)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except Problem as problem:
                if problem.kind is not RATE_LIMITED:
                    raise
                wait = float(problem.headers.get("retry-after", 1))
                await self._pause(wait, _said(problem), receiver, messages)
        if payer is not None:
            self._service.limits.settle(payer, self._who, sum(answer.replayed for answer in stored.values()))
        return stored

    async def _submit(self, left: dict[int, NewJob], bad: dict[int, str], stored: dict[int, Submitted]) -> None:
        """Store what is left; what is stored or refused is left no more."""
        intake = self._service.intake
        try:
            answers = await intake.submit_all(self._tenant_id, list(left.values()))
        except ABOUT_ONE_JOB:
            pass
        else:
            stored.update(zip(left, answers, strict=True))
            left.clear()
            return
        for place, job in list(left.items()):
            try:
                stored[place] = await intake.submit(self._tenant_id, job)
            except _PASSING:
                raise
            except KeyReused:
                pass  # an earlier message with this key, or an earlier template, has made the job
            except ABOUT_ONE_JOB as error:
                bad[place] = _said(error)
            del left[place]

    async def _finish(
        self,
        receiver: Receiver,
        messages: Sequence[Received],
        made: dict[int, Submitted],
        bad: dict[int, str],
        stopper: tuple[str, str] | None,
    ) -> None:
        """Keep what became of these messages, then tell the broker."""
        now = await self._service.store.now()
        created = [each.job_id for place, each in made.items() if place < len(messages) and not each.replayed]
        refused = [(messages[place].message_id, bad[place]) for place in sorted(bad)]
        if stopper is not None:
            refused.append(stopper)
        fresh = [SourceError(*each, now) for each in refused][-MOST_ERRORS:]
        self._errors = [*self._errors, *fresh][-MOST_ERRORS:]
        for message in messages:
            if message.part is not None:
                self._marks[message.part] = message.mark
        progress = SourceProgress(
            self._marks,
            received=len(messages),
            made=len(created),
            repeated=len(messages) - len(created) - len(bad),
            bad=len(bad),
            errors=tuple(self._errors) if fresh else (),
            reason=None if stopper is None else stopper[1],
            stopped=stopper is not None,
        )
        await self._keep(progress)
        for outcome, count in (("created", progress.made), ("repeated", progress.repeated), ("bad", progress.bad)):
            self._meters.source_messages[outcome] += count
        if created:
            self._service.trail.submitted(self._who, created[0], created[-1], len(created))
        if messages:
            await receiver.done(messages)
        if stopper is not None:
            log.warning("source %s has stopped at a bad message: %s", self._source.name, stopper[1])
            raise _Lost

    async def _keep(self, progress: SourceProgress) -> None:
        if not await self._service.store.sources.keep_source(self._stored, self._holder, _LEASE, progress):
            raise _Lost

    async def _pause(
        self, seconds: float, reason: str, receiver: Receiver | None = None, messages: Sequence[Received] = ()
    ) -> None:
        """Wait, keep the lease and hold the messages meanwhile."""
        while True:
            with suppress(StoreUnavailable):
                await self._keep(SourceProgress(self._marks, reason=reason))
            if receiver is not None:
                await receiver.hold(messages)
            await asyncio.sleep(min(seconds, _RENEW))
            seconds -= _RENEW
            if seconds <= 0:
                return


def _said(error: BaseException) -> str:
    field = getattr(error, "field", None)
    text = (error.detail or error.kind.title) if isinstance(error, Problem) else reason_of(error)
    return bounded(f"{field}: {text}" if field and field not in text else text, LONGEST_ERROR)

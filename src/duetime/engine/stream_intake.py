"""Submissions to stream queues.

    plain, on a stream queue    published: the message is the run, and there is no row
    not plain                   stored; refused if the queue takes streamed runs only
    may be in a stream already  landed: after a publish that failed, if the queue falls back to the store; after one
                                that took so long that its stream may have been retired; and a repeated request
                                around a change of kind. A plain row would make one id two runs.

A batch is checked as a whole before a part of it is stored or published. A broker that fails midway has accepted a
part, and repeating the request does no harm.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from duetime.clock import SystemClock, elapsed, monotonic
from duetime.crypto.sealer import Sealer
from duetime.engine.stream_kinds import READ_EVERY, RECENT, REPEATABLE, SETTLED, TRUSTED, Kind
from duetime.engine.stream_sight import StreamSight
from duetime.engine.streaming import Streaming, generations
from duetime.errors import InvalidInput, QueueChanged, StoreUnavailable, StreamFull, StreamUnavailable
from duetime.ids import show
from duetime.model.carried import CarriedRun, Landed, StreamQueue, why_stored
from duetime.model.job import NewJob, Submitted, Via
from duetime.model.lane import Tier
from duetime.model.microseconds import moment, stamp
from duetime.model.schedule import After
from duetime.store.protocol.store import Store
from duetime.store.rules.caller_keys import IDEMPOTENCY
from duetime.streams.message import MessageCodec
from duetime.streams.names import StreamName, streams_of

Queues = Mapping[str, Kind]
_NAMES = 10_000
_TOGETHER = 500
"""Jobs that are judged, and messages that are packed, without a pause."""


class _Ways(NamedTuple):
    """Where the jobs of a batch go, by their place in it."""

    stored: list[int]
    landed: list[int]
    published: list[int]

    def keep(self, place: int, job: NewJob) -> None:
        """A plain run goes to the store. A repeated request may be in a stream already."""
        (self.landed if job.by_nonce else self.stored).append(place)


class _Part(NamedTuple):
    """The part of a batch that goes to one stream."""

    queue: StreamQueue
    stream: str
    places: list[int]
    bodies: list[bytes]


class StreamIntake:
    def __init__(self, store: Store, streaming: Streaming, sight: StreamSight) -> None:
        self._inner = store.intake
        self._streams = store.streams
        self._tenants = store.tenants
        self._embedded = store.embedded
        self._streaming = streaming
        self._kinds = streaming.kinds
        self._sight = sight
        self._codec = MessageCodec(store.sealer or Sealer([]))
        self._names: dict[tuple[int, str, int, str, Tier], StreamName] = {}

    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        is_repeated = False
        while True:
            if self._kinds.age > READ_EVERY:
                await self._renew(tenant_id, jobs)
            queues = self._kinds.tenants.get(tenant_id)
            try:
                if queues is None:
                    return await self._inner.submit(tenant_id, jobs)
                return await self._submit(tenant_id, jobs, queues)
            except QueueChanged:  # since the kinds were read; nothing was stored or published
                if is_repeated:
                    raise
                is_repeated = True
                self._kinds.forget()

    async def _submit(self, tenant_id: int, jobs: Sequence[NewJob], queues: Queues) -> list[Submitted]:
        read_at = elapsed() - self._kinds.age
        if len(jobs) == 1 and (queue := self._carrier(tenant_id, jobs[0], queues)) is not None:
            answer = await self._publish_one(tenant_id, jobs, queue, read_at)
            if answer is not None:
                return [answer]
        ways = await self._split(tenant_id, jobs, queues)
        runs: Mapping[int, CarriedRun] = {}
        parts: Sequence[_Part] = ()
        if ways.published:
            await self._check_depths(tenant_id, queues, {jobs[place].lane.queue for place in ways.published})
            runs = await self._carried(tenant_id, jobs, ways.published)
            parts = await self._pack(jobs, queues, runs, ways)
        answers = await self._store(tenant_id, jobs, ways.stored, ways.landed)
        fallen_back = await self._publish(parts, runs, read_at)
        if fallen_back:
            nonces = [place for place in fallen_back if jobs[place].by_nonce]
            answers |= await self._store(tenant_id, jobs, (), nonces)
            await self._land([run for place, run in fallen_back.items() if not jobs[place].by_nonce])
        for place, run in runs.items():
            if place not in answers:
                via: Via = "store" if place in fallen_back else "stream"
                answers[place] = Submitted(run.job_id, moment(run.due), run.run_id, via=via)
        return [answers[place] for place in range(len(jobs))]

    def _carrier(self, tenant_id: int, job: NewJob, queues: Queues) -> StreamQueue | None:
        """The queue whose stream takes this job, if that is certain without asking the store or the broker. Such a job
        skips the steps of a batch, which cost a single submission a fifth of its time."""
        kind = queues.get(job.lane.queue)
        if kind is None or kind.current is None or job.by_nonce or kind.current.settings.max_depth is not None:
            return None
        return kind.current if why_stored(job) is None and self._streaming.is_free(tenant_id) else None

    async def _publish_one(
        self, tenant_id: int, jobs: Sequence[NewJob], queue: StreamQueue, read_at: float
    ) -> Submitted | None:
        """Publish a single job. None: nothing was published, and the job goes the way of a batch, because the broker is
        not open or the message is too large."""
        broker = self._streaming.publisher.opened(queue.settings)
        if broker is None:
            return None
        [run] = runs = await self._streams.carry(tenant_id, jobs)
        stream = self._stream(queue, Tier(jobs[0].lane.tier), shared=broker.shared)
        bodies = await self._codec.pack(stream, runs)
        if len(bodies[0]) > broker.largest:
            return None
        fallen_back = await self._publish((_Part(queue, stream.text, [0], bodies),), {0: run}, read_at)
        await self._land(list(fallen_back.values()))
        return Submitted(run.job_id, moment(run.due), run.run_id, via="store" if fallen_back else "stream")

    async def _renew(self, tenant_id: int, jobs: Sequence[NewJob]) -> None:
        """Read the kinds. A request that may be a repeated one must not be stored by an old reading: it may have been
        published meanwhile."""
        is_doubtful = self._kinds.age > RECENT and any(job.by_nonce for job in jobs)
        is_old = self._kinds.age > RECENT and bool(self._kinds.tenants)
        await self._kinds.renew(self._streams, wait=self._embedded or is_doubtful or is_old)
        if is_doubtful and self._kinds.age > RECENT and tenant_id not in self._kinds.tenants:
            raise _unread()

    async def _split(self, tenant_id: int, jobs: Sequence[NewJob], queues: Queues) -> _Ways:
        """Where each job goes. Raises `InvalidInput` for a run that its queue does not take."""
        ways = _Ways([], [], [])
        repeated: dict[int, str] = {}
        """Places whose request may have been stored before a change of kind."""
        is_limited: bool | None = None
        for place, job in enumerate(jobs):
            if place and place % _TOGETHER == 0:
                await asyncio.sleep(0)
            kind = queues.get(job.lane.queue)
            if kind is None:
                ways.stored.append(place)
                continue
            reason = why_stored(job)
            is_plain = reason is None
            if is_plain and kind.current is not None:
                if is_limited is None:
                    is_limited = await self._streaming.is_limited(self._tenants, tenant_id)
                reason = "running_runs" if is_limited else None
            if reason is not None and kind.current is not None and kind.current.settings.only:
                raise _streamed_only(reason)
            is_settled = not job.by_nonce or kind.age >= SETTLED
            if reason is None and kind.current is not None and is_settled:
                ways.published.append(place)
                if job.by_nonce and job.idempotency_key is not None and kind.age < REPEATABLE:
                    repeated[place] = job.idempotency_key
            else:
                (ways.landed if is_plain and job.by_nonce else ways.stored).append(place)
        if repeated:
            keys = [(IDEMPOTENCY, key) for key in repeated.values()]
            known = await self._inner.known_keys(tenant_id, keys, certain=True)
            stored = {place for place, key in repeated.items() if (IDEMPOTENCY, key) in known}
            ways = _Ways(
                [*ways.stored, *(place for place in ways.published if place in stored)],
                ways.landed,
                [place for place in ways.published if place not in stored],
            )
        return ways

    async def _check_depths(self, tenant_id: int, queues: Queues, names: Collection[str]) -> None:
        for name in names:
            current = queues[name].current
            if current is None or current.settings.max_depth is None:
                continue
            sample = await self._streaming.depths.sample(tenant_id, generations(queues.values()))
            if sample.of(name) >= current.settings.max_depth:
                raise StreamFull(
                    f"the stream of the queue {name!r} holds {sample.of(name):,} messages, and may hold"
                    f" {current.settings.max_depth:,}",
                    field="queue",
                    remedy="retry in a moment, add workers, or ask the operator for a higher max_depth",
                )

    async def _carried(self, tenant_id: int, jobs: Sequence[NewJob], places: Sequence[int]) -> dict[int, CarriedRun]:
        await self._streaming.check_state(self._tenants, tenant_id)
        runs = await self._streams.carry(tenant_id, [jobs[place] for place in places])
        carried = dict(zip(places, runs, strict=True))
        if nonces := [place for place in places if jobs[place].by_nonce]:
            now = stamp(SystemClock().now())
            for place in nonces:  # a nonce has the time of the client's clock
                carried[place] = msgspec.structs.replace(carried[place], due=now)
        return carried

    async def _pack(
        self, jobs: Sequence[NewJob], queues: Queues, runs: Mapping[int, CarriedRun], ways: _Ways
    ) -> list[_Part]:
        """The messages. A run that is too large for one goes to the store, and one whose broker cannot be used here."""
        by_stream: dict[tuple[str, int], list[int]] = {}
        for place in ways.published:
            lane = jobs[place].lane
            by_stream.setdefault((lane.queue, lane.tier), []).append(place)
        parts: list[_Part] = []
        for (name, tier), places in by_stream.items():
            current = queues[name].current
            assert current is not None
            try:
                traits = await self._streaming.publisher.traits(current.settings)
            except StreamUnavailable:  # this process cannot use the broker
                if not current.settings.fallback:
                    raise
                for place in places:
                    ways.keep(place, jobs[place])
                continue
            stream = self._stream(current, Tier(tier), shared=traits.shared)
            part = _Part(current, stream.text, [], [])
            for start in range(0, len(places), _TOGETHER):
                if start:
                    await asyncio.sleep(0)
                packed = places[start : start + _TOGETHER]
                bodies = await self._codec.pack(stream, [runs[place] for place in packed])
                for place, body in zip(packed, bodies, strict=True):
                    if len(body) <= traits.largest:
                        part.places.append(place)
                        part.bodies.append(body)
                    elif current.settings.only:
                        raise _streamed_only("args")
                    else:
                        ways.keep(place, jobs[place])
            if part.places:
                parts.append(part)
        return parts

    def _stream(self, queue: StreamQueue, tier: Tier, *, shared: bool) -> StreamName:
        key = queue.tenant_id, queue.queue, queue.generation, queue.settings.address, tier
        found = self._names.get(key)
        if found is None:
            if len(self._names) >= _NAMES:
                self._names.clear()
            found = self._names[key] = streams_of(queue, shared=shared)[tier]
        return found

    async def _store(
        self, tenant_id: int, jobs: Sequence[NewJob], stored: Sequence[int], landing: Sequence[int]
    ) -> dict[int, Submitted]:
        """Store jobs, and let others land: with their nonces, so that a server that stores the same request by another
        kind finds it."""
        places = [*stored, *landing]
        if not places:
            return {}
        part = [jobs[place] for place in stored]
        part += [msgspec.structs.replace(jobs[place], lands=True) for place in landing]
        if self._kinds.age > RECENT and any(jobs[place].by_nonce for place in stored):
            raise _unread()
        try:
            answers = await self._inner.submit(tenant_id, part)
        except InvalidInput as error:
            await self._check_parents(tenant_id, part, error)
            raise
        return dict(zip(places, answers, strict=True))

    async def _check_parents(self, tenant_id: int, jobs: Sequence[NewJob], error: InvalidInput) -> None:
        """Say so if a parent that does not exist may be a run in a stream."""
        for job in jobs:
            parents = () if job.depends_on is None else job.depends_on.parents
            if isinstance(job.schedule, After):
                parents = (job.schedule.job,)
            for parent in parents:
                if show("job", parent) in error.message and await self._sight.may_hold(tenant_id, parent):
                    raise InvalidInput(
                        f"{show('job', parent)} may be in a stream, and no job can wait for a run in a stream",
                        field=error.field,
                        remedy="submit it with a `key`, or to a store queue",
                    ) from None

    async def _land(self, runs: Sequence[CarriedRun]) -> None:
        if runs:
            began = monotonic()
            await self._streams.land(runs, Landed.WAITING)
            self._inner.note_carried(len(runs), monotonic() - began)

    async def _publish(
        self, parts: Sequence[_Part], runs: Mapping[int, CarriedRun], read_at: float
    ) -> Mapping[int, CarriedRun]:
        """Publish all messages. Returns the runs that landed in the store instead or too, because their broker is
        unavailable, or because the kinds were read too long ago. Raises `StreamUnavailable` when the queue of one of
        them does not fall back to the store."""
        if not parts:
            return {}
        began = monotonic()
        # A single one without a task.
        errors = (
            [await self._publish_part(parts[0])]
            if len(parts) == 1
            else await asyncio.gather(*map(self._publish_part, parts))
        )
        is_late = elapsed() - read_at > TRUSTED
        landed: dict[int, CarriedRun] = {}
        refusal: StreamUnavailable | None = None
        for part, error in zip(parts, errors, strict=True):
            if error is not None and not part.queue.settings.fallback:
                refusal = refusal or error
            elif error is not None or is_late:
                landed |= {place: runs[place] for place in part.places}
            else:
                self._inner.note_carried(len(part.places), monotonic() - began)
        if refusal is not None:
            # What falls back is stored all the same: the caller repeats the request.
            await self._land(list(landed.values()))
            raise refusal
        return landed

    async def _publish_part(self, part: _Part) -> StreamUnavailable | None:
        try:
            await self._streaming.publisher.publish(part.queue.settings, part.stream, part.bodies)
        except StreamUnavailable as error:
            return error
        return None


def _streamed_only(reason: str) -> InvalidInput:
    what = {
        "running_runs": "a limit on the running runs of the tenant",
        "args": "a run that is too large for a message",
    }.get(reason, f"`{reason}`")
    return InvalidInput(
        f"{what} needs the store; this queue takes streamed runs only",
        field=None if reason == "running_runs" else reason,
        remedy="submit to another queue" if reason in ("running_runs", "args") else "omit it, or use another queue",
    )


def _unread() -> StoreUnavailable:
    return StoreUnavailable("the kinds of the queues could not be read")

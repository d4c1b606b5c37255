"""What queues need, for autoscalers. Readings of all tenants are shared, so the number of callers does not matter."""

from datetime import datetime, timedelta
from typing import NamedTuple

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.api.routes.queues import queue_name
from duetime.api.service import Service
from duetime.engine.queue_figures import WINDOW
from duetime.engine.stream_depths import NOTHING, Sample
from duetime.errors import InvalidInput
from duetime.model.access import Action
from duetime.model.demand import (
    MOST_STEPS,
    Activity,
    Coming,
    DueRuns,
    Peak,
    QueueActivity,
    QueueAhead,
    WorkerShape,
    due_runs,
    limited,
    peak_ahead,
    workers_now,
)
from duetime.model.limits import Rate, parse_rate
from duetime.model.tenant import Queue, Tenant, TenantState
from duetime.model.worker import Worker
from duetime.spec.kinds import read_duration
from duetime.wire.demand import MOST_MINUTES, DemandQuery, DemandView, DurationSource

routes = Routes("Queues and workers")

_SPANS = (5, 15, MOST_MINUTES)
"""Minutes for which jobs are read: few, so that callers with different times share a reading."""
_ASSUMED = 1.0
_SHORTEST, _LONGEST = timedelta(seconds=1), timedelta(hours=1)
_ASKED_JOBS, _ASKED_RUNS = 20, 3
_ANNOUNCED = 1000
"""Runs of a lane that the relay announces in a stream while they are in the store."""


class _Asked(NamedTuple):
    queue: str
    minutes: int
    slots: int | None
    lag: timedelta
    duration: timedelta | None
    rate: Rate | None

    @property
    def step(self) -> timedelta:
        return timedelta(seconds=max(1.0, self.minutes * 60 / MOST_STEPS))

    @property
    def steps(self) -> int:
        return max(1, -(-timedelta(minutes=self.minutes) // self.step))


class _Readings(NamedTuple):
    tenant: Tenant
    queue: Queue
    activity: Activity
    ahead: QueueAhead
    sample: Sample
    workers: list[Worker]
    coming: Coming | None
    """None: only the present was asked for."""

    @property
    def now(self) -> QueueActivity:
        return self.activity.queues.get((self.tenant.id, self.queue.name), QueueActivity())

    @property
    def paused(self) -> bool:
        return self.queue.paused or self.tenant.state is not TenantState.ACTIVE

    @property
    def messages(self) -> int:
        """In streams, without the announcements of runs that wait in the store."""
        announced = min(self.ahead.waiting, _ANNOUNCED * self.ahead.lanes)
        return max(0, self.sample.of(self.queue.name) - announced)

    @property
    def live(self) -> int:
        """Runs that need slots now. Of a paused queue, no other run starts."""
        return self.now.running + (0 if self.paused else self.ahead.waiting + self.messages)

    @property
    def arrivals(self) -> float:
        return self.activity.rate(self.now.arrived + self.ahead.arrived)

    @property
    def unplanned(self) -> float:
        """Arrivals per second that no schedule foretells."""
        return 0.0 if self.paused else self.activity.rate(self.now.unplanned + self.ahead.unplanned)

    @property
    def oldest(self) -> datetime:
        published = [each.oldest for each in self.sample.depths if each.queue == self.queue.name]
        return min((each for each in (*published, self.ahead.oldest) if each is not None), default=self.ahead.now)


@routes.get("/v1/queues/{queue}/demand", Action.READ, query=DemandQuery, answer=DemandView)
async def get_demand(call: Call) -> DemandView:
    """Read how many workers a queue needs, now and in the next minutes, for an autoscaler."""
    asked = _asked(call)
    return await call.service.seen_demand.share(
        (call.tenant_id, *asked), lambda: _demand(call.service, call.tenant_id, asked)
    )


def _asked(call: Call) -> _Asked:
    query: DemandQuery = call.query
    lag = read_duration(query.lag, "lag")
    if not _SHORTEST <= lag <= _LONGEST:
        raise InvalidInput("is too short or too long", field="lag", remedy="from 1s to 1h")
    duration = None if query.duration is None else read_duration(query.duration, "duration")
    if duration is not None and duration <= timedelta():
        raise InvalidInput("is too short", field="duration", remedy="longer than 0s")
    rate = None if query.rate is None else parse_rate(query.rate)
    return _Asked(queue_name(call), query.minutes, query.slots, lag, duration, rate)


async def _demand(service: Service, tenant_id: int, asked: _Asked) -> DemandView:
    found = await _read(service, tenant_id, asked)
    now, ahead, notes = found.now, found.ahead, _notes(found)
    duration, source = await _duration(service, found, asked.duration)
    if source == "assumed":
        notes.append(f"no run of this queue was measured: {_ASSUMED:g} s is assumed; give `duration`")
    live_slots = sum(worker.slots for worker in found.workers)
    slots = asked.slots or (max(1, round(live_slots / len(found.workers))) if live_slots else service.settings.slots)
    rate = None if asked.rate is None else asked.rate.count / asked.rate.period.total_seconds()
    shape = WorkerShape(slots, duration, asked.lag.total_seconds(), rate)
    due, peak = DueRuns([], ()), Peak(0, None)
    if found.coming is not None and not found.paused:
        due, peak = await service.computing.run(tenant_id, _look_ahead, found, asked, shape)
        notes += due.notes
    present = workers_now(found.live, found.unplanned, shape)
    wanted = [limited(each, shape, found.queue.limits, found.tenant.limits.running_runs) for each in (present, peak[0])]
    if wanted != [present, peak.workers]:
        notes.append("more workers would be of no use: a limit on the runs of the queue or its tenant is reached")
    return DemandView(
        queue=asked.queue,
        at=ahead.now,
        workers=max(*wanted, 0 if found.sample.is_whole else len(found.workers)),
        workers_now=wanted[0],
        workers_ahead=max(wanted),
        peak_at=None if peak.step is None or wanted[1] <= wanted[0] else ahead.now + asked.step * peak.step,
        waiting=ahead.waiting,
        running=now.running,
        in_streams=found.sample.of(asked.queue),
        oldest_age=max(0.0, (ahead.now - found.oldest).total_seconds()),
        arrival_rate=round(found.arrivals, 3),
        coming=sum(due.counts),
        live_workers=len(found.workers),
        live_slots=live_slots,
        paused=found.paused,
        minutes=asked.minutes,
        slots=slots,
        lag=shape.lag,
        duration=round(duration, 6),
        duration_from=source,
        rate=None if asked.rate is None else str(asked.rate),
        exact=not notes,
        notes=tuple(notes),
    )


async def _read(service: Service, tenant_id: int, asked: _Asked) -> _Readings:
    store = service.store
    activity = await service.seen_activity.share(True, lambda: store.demand.activity(WINDOW))
    ahead = await store.demand.queue_ahead(tenant_id, asked.queue, activity.since, asked.step, asked.steps)
    coming = None
    if asked.minutes:
        span = next(each for each in _SPANS if asked.minutes <= each)
        coming = await service.seen_coming.share(span, lambda: store.demand.coming(timedelta(minutes=span)))
    return _Readings(
        tenant=await store.tenants.tenant_by_id(tenant_id),
        queue=await store.queues.queue(tenant_id, asked.queue, cap=1),
        activity=activity,
        ahead=ahead,
        sample=await service.streaming.sample(store.streams, tenant_id) or NOTHING,
        workers=[each for each in await store.leases.workers(tenant_id) if _serves(each, asked.queue, ahead.now)],
        coming=coming,
    )


def _serves(worker: Worker, queue: str, now: datetime) -> bool:
    return worker.lease_until > now and worker.runs_tasks and (not worker.queues or queue in worker.queues)


def _look_ahead(found: _Readings, asked: _Asked, shape: WorkerShape) -> tuple[DueRuns, Peak]:
    assert found.coming is not None
    due = due_runs(found.coming, found.ahead, found.tenant.id, asked.queue, asked.step, asked.steps)
    return due, peak_ahead(found.live, due.counts, asked.step.total_seconds(), shape)


async def _duration(service: Service, found: _Readings, given: timedelta | None) -> tuple[float, DurationSource]:
    """How many seconds a run of the queue takes on average, and how this is known."""
    if given is not None:
        return given.total_seconds(), "given"
    known, place, now = service.seen_durations, (found.tenant.id, found.queue.name), found.now
    if now.attempts:
        measured = now.busy / now.attempts
        known.put(place, measured)
        return measured, "recent"
    before = known.look(place)
    if before is None:
        before = (known.put(place, await _earlier(service, found), WINDOW.total_seconds()),)
    return (_ASSUMED, "assumed") if before[0] is None else (before[0], "earlier")


async def _earlier(service: Service, found: _Readings) -> float | None:
    """The average of the last runs of some recurring jobs that come next."""
    tenant_id, coming = found.tenant.id, found.coming
    if coming is None:
        return None
    jobs = [*coming.jobs.get(tenant_id, ()), *coming.sampled.get(tenant_id, ())]
    ids = [job.job_id for job in jobs if job.recurring and job.queue == found.queue.name][:_ASKED_JOBS]
    ends = await service.store.figures.recent_runs(tenant_id, ids, _ASKED_RUNS) if ids else {}
    took = [
        (end.finished_at - end.started_at).total_seconds()
        for runs in ends.values()
        for end in runs
        if end.started_at is not None
    ]
    return sum(took) / len(took) if took else None


def _notes(found: _Readings) -> list[str]:
    """Which bounds were reached, and what could not be read."""
    notes = []
    if not found.activity.whole:
        notes.append("there are more running runs than were counted")
    if not found.ahead.whole:
        notes.append("there are more waiting runs than were counted")
    if found.coming is not None and found.coming.horizon is not None:
        notes.append(f"more jobs fire than can be read: after {found.coming.horizon:%H:%M:%S} UTC none are counted")
    if any(depth.shared and depth.messages for depth in found.sample.depths if depth.queue == found.queue.name):
        notes.append("all tenants share the stream, and the messages of all are counted")
    if not found.sample.is_whole:
        notes.append("a broker does not answer, so no live worker is given up")
    return notes

"""Statistics: the state of a tenant, recent runs, and future fires. Responses are cached for concurrent readers."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.engine.jobs_ahead import read_ahead
from duetime.errors import InvalidInput
from duetime.ids import parse, show
from duetime.model.access import Action
from duetime.model.forecast import FARTHEST, forecast
from duetime.model.lists import RunEnd
from duetime.model.overview import Recent, Standing
from duetime.model.schedule import check_moment
from duetime.model.structs import struct_like
from duetime.model.tenant import Queue
from duetime.model.trends import HOUR, MINUTE, TrendStep, percentiles, stepped
from duetime.spec.kinds import read_duration
from duetime.wire.figures import (
    CountView,
    FailingView,
    FireCount,
    Fires,
    FiresQuery,
    LagView,
    PercentilesView,
    RecentRun,
    RecentRuns,
    RecentRunsOfJob,
    RecentRunsQuery,
    Stats,
    StatsQuery,
    StepView,
    Trends,
    TrendsQuery,
    TrendStepView,
    WaitingView,
)
from duetime.wire.service import DepthView

routes = Routes("Figures")
STEPS = 60
MOST_STEPS = 400
_SECOND = timedelta(seconds=1)
_HOUR = timedelta(hours=1)


@routes.get("/v1/stats", Action.READ, query=StatsQuery, answer=Stats, replica=True)
async def get_stats(call: Call) -> Stats:
    """Read the state of the tenant and its recent activity: counts, lag, outcomes."""
    window = read_duration(call.query.window, "window")
    if not timedelta(minutes=1) <= window <= _HOUR:
        raise InvalidInput("is too short or too long", field="window", remedy="from 1m to 1h")
    seen, place = call.service.seen_stats, (call.tenant_id, window, call.from_replica)
    return seen.get(place) or seen.put(place, await _stats(call, window))


async def _stats(call: Call, window: timedelta) -> Stats:
    store, tenant_id = call.store, call.tenant_id
    step = window / STEPS
    recent: Recent = await store.figures.recent(tenant_id, window, step)
    standing: Standing = await store.figures.standing(tenant_id)
    queues: list[Queue] = await store.queues.queues(tenant_id)
    alive = [worker for worker in await store.leases.workers(tenant_id) if worker.lease_until > recent.until]
    tasks = {task for worker in alive for task in worker.tasks}
    paused = {queue.name for queue in queues if queue.paused}
    depths = [queue.depth for queue in queues]
    return Stats(
        at=recent.until,
        since=recent.since,
        step=step / _SECOND,
        steps=tuple(struct_like(StepView, each) for each in recent.steps),
        lag=None
        if recent.lag is None
        else LagView(recent.lag.p50 / _SECOND, recent.lag.p95 / _SECOND, recent.lag.most / _SECOND),
        failing=tuple(struct_like(FailingView, each) for each in recent.failing),
        jobs=struct_like(CountView, standing.jobs),
        running=struct_like(CountView, standing.running),
        dead_letters=struct_like(CountView, standing.dead_letters),
        depth=DepthView(
            sum(depth.high for depth in depths),
            sum(depth.medium for depth in depths),
            sum(depth.low for depth in depths),
            any(depth.capped for depth in depths),
        ),
        waiting=tuple(
            WaitingView(each.task, each.queue, each.since, each.task in tasks, each.queue in paused)
            for each in standing.waiting[:20]
        ),
        paused_queues=tuple(sorted(paused)),
        workers=len(alive),
        slots=sum(worker.slots for worker in alive),
    )


_RANGES = {
    "hour": (MINUTE, MINUTE, 60),
    "day": (MINUTE, 15 * MINUTE, 96),
    "week": (HOUR, HOUR, 168),
}
"""What is read, the length of a step, and how many there are."""


@routes.get("/v1/trends", Action.READ, query=TrendsQuery, answer=Trends, replica=True)
async def get_trends(call: Call) -> Trends:
    """Read lag, duration and throughput over the last hour, day or week."""
    read, step, count = _RANGES[call.query.range]
    now = await call.store.now()
    last = datetime.fromtimestamp(now.timestamp() // step.total_seconds() * step.total_seconds(), UTC)
    start = last - step * (count if read is step and step == MINUTE else count - 1)
    found = stepped(await call.store.trends.trends(call.tenant_id, read, start), start, step, count)
    return Trends(
        range=call.query.range,
        start=start,
        step=step / _SECOND,
        steps=tuple(_trend(each) for each in found),
        exact=not any(each.pace.estimated for each in found),
    )


def _trend(step: TrendStep) -> TrendStepView:
    return struct_like(
        TrendStepView,
        step.pace,
        at=step.at,
        lag=_percentiles(step.pace.lags),
        duration=_percentiles(step.pace.took),
    )


def _percentiles(sizes: Mapping[int, int]) -> PercentilesView | None:
    found = percentiles(sizes)
    return None if found is None else PercentilesView(round(found.p50, 6), round(found.p95, 6))


@routes.get("/v1/fires", Action.READ, query=FiresQuery, answer=Fires, replica=True)
async def list_fires(call: Call) -> Fires:
    """Read the number of future runs by queue and time: of the next hour, or of a given range."""
    query, service = call.query, call.service
    now = await call.store.now()
    start = now.replace(microsecond=0) if query.start is None else check_moment(query.start, "start")
    end = start + _HOUR if query.end is None else check_moment(query.end, "end")
    step = read_duration(query.step, "step")
    steps = _steps(start, end, step, now)
    # A range that starts now is a new one each second.
    place = (call.tenant_id, query.start or "now", query.end or "now", step, call.from_replica)
    return await service.seen_fires.share(place, lambda: _fires(call, start, step, steps))


def _steps(start: datetime, end: datetime, step: timedelta, now: datetime) -> int:
    if step < _SECOND:
        raise InvalidInput("is too short", field="step", remedy="1s or longer")
    if end <= start or end > now + FARTHEST:
        raise InvalidInput("is before the start, or too far ahead", field="end", remedy="up to 35 days from now")
    steps = -(-(end - start) // step)
    if steps > MOST_STEPS:
        raise InvalidInput(f"makes {steps} steps", field="step", remedy=f"at most {MOST_STEPS}: use a longer step")
    return steps


async def _fires(call: Call, start: datetime, step: timedelta, steps: int) -> Fires:
    service, tenant_id = call.service, call.tenant_id
    ahead = await read_ahead(call.store, tenant_id, start, step, steps)
    found = await service.computing.run(tenant_id, forecast, ahead, start, step, steps)
    return Fires(
        start=start,
        end=start + step * steps,
        step=step / _SECOND,
        at=ahead.now,
        exact=found.exact,
        estimate=None if found.exact else "; ".join(found.notes),
        items=tuple(
            FireCount(start + step * number, queue, count) for (number, queue), count in sorted(found.counts.items())
        ),
    )


@routes.get("/v1/recent-runs", Action.READ, scoped=True, query=RecentRunsQuery, answer=RecentRuns, replica=True)
async def list_recent_runs(call: Call) -> RecentRuns:
    """Read how the last runs of several jobs ended."""
    wanted = call.query.job_ids.split(",")
    if len(wanted) > 100:
        raise InvalidInput("has too many ids", field="job_ids", remedy="at most 100")
    try:
        ids = [parse("job", text.strip()) for text in wanted]
    except InvalidInput as error:
        raise InvalidInput(
            "contains a text that is not the id of a job", field="job_ids", remedy=error.remedy
        ) from None
    found = await call.store.figures.recent_runs(call.tenant_id, ids, call.query.count)
    return RecentRuns(
        tuple(RecentRunsOfJob(show("job", job_id), tuple(map(_recent, runs))) for job_id, runs in found.items())
    )


def _recent(run: RunEnd) -> RecentRun:
    lasted = None if run.started_at is None else (run.finished_at - run.started_at) / _SECOND
    return RecentRun(show("run", run.run_id), run.state.name, run.due_at, lasted)  # type: ignore[arg-type]

"""The figures of jobs, tasks and tags: time without a success, waits for a start, and unusual durations.

Waits and durations count from the last step of the clock, or the return of the nodes, at the earliest: what waited
while no node ran is not late by that. Each reading has a bounded cost: it follows an index to the job, or reads the
heads of lanes that have waited for too long.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Any, NamedTuple
from uuid import UUID

from duetime.engine.watcher import unserved_lanes
from duetime.ids import show
from duetime.model.alert import Alert, AlertRule, Figure, Reading
from duetime.model.job import JobState, Options
from duetime.model.lane import Lane
from duetime.model.notification import QUEUE
from duetime.model.run import RunState
from duetime.model.tenant import TenantState
from duetime.store.protocol.alert_subjects import EndedRun, RunningRun, WaitingRun, WatchedJob
from duetime.store.protocol.service import ClockSeen
from duetime.store.protocol.store import Store

SAMPLE = 50
"""Successful runs of a job that its usual duration is computed from."""
LEAST = 10
"""Fewer of them are too small a sample."""
_PAGE = 200
_DEVIATIONS = 3
_MAD = 1.4826
"""Makes the median of deviations an estimate of the standard deviation."""
_SHORTEST = 1.0
"""Seconds: a usual duration below it counts as this."""
_LATE_LANES = 20
_WAITING = 1000
_RUNNING = 1000
_COMPARED = 50
"""Jobs whose running runs are compared with their history in one round."""
_JOBS_OF_TAG = 100


class Usual(NamedTuple):
    longest: float
    """Seconds that a run takes at the most, usually."""
    sample: int


class SubjectReadings:
    """The readings of one round."""

    def __init__(self, store: Store, seen: ClockSeen, lanes: Callable[[], Awaitable[list[Lane]]]) -> None:
        self._store = store
        self._now = seen.now
        self._steady = seen.now if seen.stepped_at is None else min(seen.stepped_at, seen.now)
        """Since when the clock has run without a step, and nodes have watched it."""
        self._lanes = lanes
        self._suspended: dict[int, bool] = {}
        self._paused: dict[int, frozenset[str]] = {}
        self._running: dict[int, Sequence[RunningRun]] = {}
        self._read_until: datetime | None = None

    async def of(self, alert: Alert) -> Reading:
        rule = alert.rule
        job = None if rule.job is None else await self._store.alert_subjects.watched_job(alert.tenant_id, rule.job)
        facts: Mapping[str, Any] = _facts_of_job(rule, job)
        paused = await self._paused_queues(alert)
        if await self._is_excused(alert, job, paused):
            return Reading(None, facts, excused=True, pauses=_remembered(alert, paused, self._now))
        match rule.figure:
            case Figure.NO_SUCCESS:
                value = await self._silence(alert)
            case Figure.NOT_STARTED:
                value, facts = await self._waiting(alert, job, paused)
            case _:
                value, facts = await self._overtime(alert)
        return Reading(value, facts, pauses=_remembered(alert, paused, self._now))

    async def _is_excused(self, alert: Alert, job: WatchedJob | None, paused: frozenset[str]) -> bool:
        """Whether nothing can be expected of the subject, because it is paused."""
        rule, tenant_id = alert.rule, alert.tenant_id
        if tenant_id not in self._suspended:
            tenant = await self._store.tenants.tenant_by_id(tenant_id)
            self._suspended[tenant_id] = tenant.state is not TenantState.ACTIVE
        if self._suspended[tenant_id] or rule.queue in paused:
            return True
        if job is not None:
            return job.state is JobState.PAUSED or job.queue in paused
        if rule.tag is not None and rule.figure is Figure.NO_SUCCESS:
            states = await self._store.alert_subjects.states_of_tag(tenant_id, rule.tag, _JOBS_OF_TAG)
            return bool(states) and len(states) < _JOBS_OF_TAG and set(states) == {JobState.PAUSED}
        return False

    async def _paused_queues(self, alert: Alert) -> frozenset[str]:
        if alert.tenant_id not in self._paused:
            self._paused[alert.tenant_id] = await self._store.alert_subjects.paused_queues(alert.tenant_id)
        return self._paused[alert.tenant_id]

    async def _own_lanes(self, tenant_id: int) -> list[Lane]:
        return [lane for lane in await self._lanes() if lane.key.tenant_id == tenant_id and lane.key.queue != QUEUE]

    async def _silence(self, alert: Alert) -> float | None:
        """Seconds without a success, as far as events were read."""
        if self._read_until is None:
            self._read_until = await self._store.notifications.events_read_until()
        if self._read_until is None:
            return None
        assert alert.counts_from is not None
        return max(0.0, (min(self._now, self._read_until) - alert.counts_from).total_seconds())

    # Waiting for a start

    async def _waiting(
        self, alert: Alert, job: WatchedJob | None, paused: frozenset[str]
    ) -> tuple[float, Mapping[str, Any]]:
        rule, tenant_id = alert.rule, alert.tenant_id
        until = self._now - timedelta(seconds=rule.threshold)
        found: list[tuple[float, dict[str, Any], Lane | None]] = []

        def note(queue: str, since: datetime, facts: dict[str, Any], lane: Lane | None) -> None:
            earliest = max(filter(None, (since, alert.counts_from, self._steady, alert.pauses.get(queue))))
            if queue not in paused:
                found.append((max(0.0, (self._now - earliest).total_seconds()), facts, lane))

        if rule.job is not None:
            run = await self._store.alert_subjects.waiting_of_job(tenant_id, rule.job)
            if run is not None:
                lane = next((each for each in await self._own_lanes(tenant_id) if _is_of(each, run)), None)
                note(run.queue, run.ready_at, _facts_of_run(run), lane)
            if job is not None and job.next_fire_at is not None and job.next_fire_at <= until:
                facts = _facts(rule.job, job.task, job.queue, job.next_fire_at, job.options)
                note(job.queue, job.next_fire_at, facts | {"problem": job.problem}, None)
        else:
            for lane, run in await self._late_runs(alert, until, paused):
                note(run.queue, run.ready_at, _facts_of_run(run), lane)
            for late in await self._store.alert_subjects.unfired_jobs(tenant_id, until, _WAITING):
                if _covers(rule, late.task, late.queue, late.options):
                    facts = _facts(late.job_id, late.task, late.queue, late.next_fire_at, late.options)
                    note(late.queue, late.next_fire_at, facts, None)
        if not found:
            return 0.0, {}
        value, facts, lane = max(found, key=lambda each: each[0])
        if value > rule.threshold and lane is not None:
            facts = facts | {"no_worker": bool(await unserved_lanes(self._store, {lane.id: lane}))}
        return value, facts

    async def _late_runs(self, alert: Alert, until: datetime, paused: frozenset[str]) -> list[tuple[Lane, WaitingRun]]:
        """The longest waiting run of each lane whose head has waited for too long."""
        rule = alert.rule
        lanes = {
            lane.id: lane
            for lane in await self._own_lanes(alert.tenant_id)
            if rule.queue in (None, lane.key.queue)
            and rule.task in (None, lane.key.task)
            and lane.key.queue not in paused
        }
        look = await self._store.claims.look(list(lanes), 1)
        late = sorted((sight.ready_at[0], sight.lane_id) for sight in look.sights if sight.ready_at[0] <= until)
        found = []
        for _, lane_id in late[:_LATE_LANES]:
            runs = await self._store.alert_subjects.waiting_in_lane(lane_id, until, _WAITING)
            covered = (run for run in runs if run.never_started and _covers(rule, run.task, run.queue, run.options))
            if (run := next(covered, None)) is not None:
                found.append((lanes[lane_id], run))
        return found

    # Unusual durations

    async def _overtime(self, alert: Alert) -> tuple[float | None, Mapping[str, Any]]:
        """The run that takes the most times its usual duration: one that is running, or the last one of the job."""
        rule, tenant_id = alert.rule, alert.tenant_id
        subjects = self._store.alert_subjects
        by_job: dict[UUID, RunningRun] = {}
        if rule.job is not None:
            running = await subjects.running_of_job(tenant_id, rule.job, 1)
        else:
            running = await self._longest_running(tenant_id)
        for run in running:
            if rule.job is not None or _covers(rule, run.task, run.queue, run.options):
                by_job.setdefault(run.job_id, run)
        found: list[tuple[float, dict[str, Any]]] = []
        for job_id, run in list(by_job.items())[:_COMPARED]:
            usual = usual_duration(await subjects.newest_ends(tenant_id, job_id, _PAGE), self._steady)
            if usual is not None:
                took = max(0.0, (self._now - max(run.started_at, self._steady)).total_seconds())
                facts = _facts(job_id, run.task, run.queue, None, run.options, run.run_id)
                found.append(_compared(took, usual, facts, run.started_at, running=True))
        if rule.job is not None:
            found += await self._last_ended(tenant_id, rule.job)
            if not found:
                return None, {}
        return max(found, key=lambda each: each[0], default=(0.0, {}))

    async def _longest_running(self, tenant_id: int) -> Sequence[RunningRun]:
        if tenant_id not in self._running:
            self._running[tenant_id] = await self._store.alert_subjects.longest_running(tenant_id, _RUNNING)
        return self._running[tenant_id]

    async def _last_ended(self, tenant_id: int, job_id: UUID) -> list[tuple[float, dict[str, Any]]]:
        ends = await self._store.alert_subjects.newest_ends(tenant_id, job_id, _PAGE)
        last = next((end for end in ends if _duration(end, self._steady) is not None), None)
        if last is None or last.started_at is None:
            return []
        took = _duration(last, self._steady)
        usual = usual_duration([end for end in ends if end.run_id != last.run_id], self._steady)
        if usual is None or took is None:
            return []
        job = await self._store.alert_subjects.watched_job(tenant_id, job_id)
        facts: dict[str, Any] = {"job_id": show("job", job_id), "run_id": show("run", last.run_id)}
        if job is not None:
            facts = _facts(job_id, job.task, job.queue, None, job.options, last.run_id)
        return [_compared(took, usual, facts, last.started_at, running=False)]


def usual_duration(ends: Sequence[EndedRun], steady: datetime) -> Usual | None:
    """How long the newest successful runs took at the most, usually: their median, and three deviations. Few or
    exceptional runs do not move it; None if there are too few runs."""
    durations = [_duration(end, steady) for end in ends if end.end_state is RunState.SUCCEEDED]
    sample = [each for each in durations if each is not None][:SAMPLE]
    if len(sample) < LEAST:
        return None
    middle = median(sample)
    deviation = _MAD * median(abs(each - middle) for each in sample)
    return Usual(max(_SHORTEST, middle + _DEVIATIONS * deviation), len(sample))


def _duration(end: EndedRun, steady: datetime) -> float | None:
    """Seconds; None if the run did not start, or if the clock stepped while it was running."""
    if end.started_at is None or end.started_at < steady <= end.finished_at or end.finished_at < end.started_at:
        return None
    return (end.finished_at - end.started_at).total_seconds()


def _compared(
    took: float, usual: Usual, facts: dict[str, Any], started_at: datetime, *, running: bool
) -> tuple[float, dict[str, Any]]:
    measured = {"seconds": round(took, 3), "usual_seconds": round(usual.longest, 3), "sample": usual.sample}
    return took / usual.longest, facts | measured | {"started_at": started_at.isoformat(), "running": running}


def _covers(rule: AlertRule, task: str, queue: str, options: Options) -> bool:
    return (
        queue != QUEUE
        and rule.queue in (None, queue)
        and rule.task in (None, task)
        and (rule.tag is None or rule.tag in options.tags)
    )


def _is_of(lane: Lane, run: WaitingRun) -> bool:
    return (lane.key.queue, lane.key.task) == (run.queue, run.task)


def _remembered(alert: Alert, paused: frozenset[str], now: datetime) -> dict[str, datetime]:
    """When each queue was last seen paused. A moment is kept while a wait that began before it can still open the
    alert."""
    if alert.rule.figure is not Figure.NOT_STARTED:
        return {}
    recent = now - timedelta(seconds=alert.rule.threshold + alert.rule.for_seconds)
    kept = {queue: at for queue, at in alert.pauses.items() if recent < at <= now}
    covered = (queue for queue in paused if alert.rule.queue in (None, queue))
    return kept | dict.fromkeys(covered, now)


def _facts_of_job(rule: AlertRule, job: WatchedJob | None) -> dict[str, Any]:
    if rule.job is None:
        return {}
    if job is None:
        return {"job_state": "gone"}
    state = None if job.state is JobState.ACTIVE else job.state.name
    return {"name": job.options.name or job.task, "job_state": state, "problem": job.problem}


def _facts_of_run(run: WaitingRun) -> dict[str, Any]:
    return _facts(run.job_id, run.task, run.queue, run.due_at, run.options, run.run_id)


def _facts(
    job_id: UUID, task: str, queue: str, due_at: datetime | None, options: Options, run_id: UUID | None = None
) -> dict[str, Any]:
    return {
        "job_id": show("job", job_id),
        "run_id": None if run_id is None else show("run", run_id),
        "name": options.name,
        "task": task,
        "queue": queue,
        "due_at": None if due_at is None else due_at.isoformat(),
        "not_fired": True if run_id is None and due_at is not None else None,
    }

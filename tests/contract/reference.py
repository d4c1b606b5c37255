"""The contract as a small model in memory, written from the words of the protocol and not from any store's SQL.

It keeps no more than what can be seen from outside, and does the simplest thing that the words allow. Where a store may
choose (which cursors fire first), the model is told what the store chose, and checks that it was allowed to.
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from duetime.errors import Conflict, JobBusy, KeyReused, LeaseLost, NotFound
from duetime.ids import once_run_id
from duetime.model.attempt import AttemptState, Completion
from duetime.model.firing import LOOK_AHEAD, Decided, Fire, SetAside
from duetime.model.job import JobState, NewJob, Submitted
from duetime.model.lane import LaneKey, Trial, trial_after
from duetime.model.run import Event, RunState
from duetime.model.schedule import NOW, Every, Once, Schedule
from duetime.model.suspicion import FORGET_JOBS
from duetime.model.worker import Lost
from duetime.store.protocol.service import JudgeLost
from duetime.store.rules.strays import SETTLED

_ENDS = {
    Event.SUCCEED: RunState.SUCCEEDED,
    Event.FAIL: RunState.FAILED,
    Event.CANCEL: RunState.CANCELLED,
}


@dataclass
class RefRun:
    id: UUID
    job_id: UUID
    home: LaneKey
    lane: LaneKey
    due_at: datetime
    ready_at: datetime
    timeout_ms: int | None = None
    options: bytes | None = None
    attempt: int = 0
    lost: int = 0
    fence: int = 0
    worker_id: UUID | None = None
    claim_no: int | None = None
    started_at: datetime | None = None
    cancel_requested: bool = False
    end: RunState | None = None
    ended_at: datetime | None = None
    attempts: list[tuple[int, int, AttemptState]] = field(default_factory=list)

    @property
    def state(self) -> RunState:
        if self.end is not None:
            return self.end
        if self.worker_id is not None:
            return RunState.RUNNING
        return RunState.RETRYING if self.attempt or self.lost else RunState.PENDING


@dataclass
class RefJob:
    """A job in its first home."""

    id: UUID
    lane: LaneKey
    schedule: Once | Every
    created_at: datetime
    timeout_ms: int | None = None
    options: bytes | None = None
    next_fire_at: datetime | None = None
    scan_at: datetime | None = None
    state: JobState = JobState.ACTIVE
    asked: Schedule = NOW


@dataclass
class RefClaim:
    claimed_at: datetime
    run_ids: set[UUID]
    found: bool = False
    """It was gone, and the sweep made it anew from its runs."""
    not_held: bool = False
    """Its worker lives, and does not hold it."""


@dataclass
class RefKey:
    fingerprint: bytes
    answer: Submitted


class Reference:
    def __init__(self, now: datetime, *, restamps: bool) -> None:
        """`restamps`: an edit lets runs that are due already queue anew, as a store must whose claims keep marks."""
        self.now = now
        self.restamps = restamps
        self.jobs: dict[UUID, RefJob] = {}
        self.runs: dict[UUID, RefRun] = {}
        self.keys: dict[tuple[int, str, str], RefKey] = {}
        self.workers: dict[UUID, datetime] = {}
        self.held_since: dict[UUID, datetime] = {}
        self.claims: dict[tuple[UUID, int], RefClaim] = {}
        self.heard: dict[UUID, datetime] = {}
        self.suspects: dict[UUID, tuple[int, datetime, datetime]] = {}
        """How many workers a job has lost in a row, when that was noticed, and when the last of them was heard of."""
        """How many workers recurring jobs have lost in a row, and when the last one."""
        self.trial_lanes: set[LaneKey] = set()
        self.history = 0
        self.dead_letters = 0

    # What can be seen

    def live(self, job_id: UUID | None = None) -> list[RefRun]:
        return [run for run in self.runs.values() if run.end is None and job_id in (None, run.job_id)]

    def runs_of(self, job_id: UUID) -> list[RefRun]:
        return sorted((run for run in self.runs.values() if run.job_id == job_id), key=lambda run: run.id, reverse=True)

    def job_view(self, job_id: UUID) -> tuple[JobState, datetime | None]:
        """State and next run of a job, wherever it lives."""
        job = self.jobs.get(job_id)
        if job is not None:
            waiting = [run.due_at for run in self.live(job_id) if run.worker_id is None]
            return job.state, min([*waiting, *([job.next_fire_at] if job.next_fire_at else [])], default=None)
        run = self.runs_of(job_id)[0]
        if run.end is not None:
            return (JobState.CANCELLED if run.end is RunState.CANCELLED else JobState.ENDED), None
        return JobState.ACTIVE, run.ready_at if run.worker_id is None else None

    def waiting_in(self, lane: LaneKey) -> list[RefRun]:
        """The unclaimed runs of a lane, in the order in which they are claimed."""
        found = [run for run in self.live() if run.lane == lane and run.worker_id is None]
        return sorted(found, key=lambda run: (run.ready_at, run.id))

    # Intake

    def submit(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        """All of them, or none."""
        before = copy.deepcopy(self.__dict__)
        try:
            return [self._submit_one(job) for job in jobs]
        except (KeyReused, JobBusy):
            self.__dict__ = before
            raise

    def _submit_one(self, job: NewJob) -> Submitted:
        tenant = job.lane.tenant_id
        if job.idempotency_key is not None:
            known = self.keys.get((tenant, "i", job.idempotency_key))
            if known is not None:
                if known.fingerprint != job.fingerprint:
                    raise KeyReused("another request")
                first = known.answer
                return Submitted(first.job_id, first.next_run, first.run_id, created=False, replayed=True)
        answer = self._submit_named(job)
        if job.idempotency_key is not None:
            self.keys[tenant, "i", job.idempotency_key] = RefKey(job.fingerprint, answer)
        return answer

    def _submit_named(self, job: NewJob) -> Submitted:
        """`key` names one live job: the same request changes nothing, another one replaces it in place."""
        if job.key is None:
            return self._place(job, job.id, created=True)
        name = (job.lane.tenant_id, "k", job.key)
        known = self.keys.get(name)
        job_id = known.answer.job_id if known else None
        if known is None or job_id is None or not self._is_live(job_id):
            answer = self._place(job, job.id, created=True)
        elif known.fingerprint == job.fingerprint:
            live = sorted(self.live(job_id), key=lambda run: run.id)
            stored = self.jobs.get(job_id)
            due = [run.due_at for run in live if run.fence == 0]
            next_run = min(due, default=stored.next_fire_at if stored else known.answer.next_run)
            return Submitted(job_id, next_run, live[-1].id if live else None, created=False)
        elif job_id in self.jobs:
            answer = self._edit(job, self.jobs[job_id])
        else:
            if any(run.fence for run in self.live(job_id)):
                raise JobBusy("it has started")
            self._withdraw(job_id)
            answer = self._place(job, job_id, created=False)
        self.keys[name] = RefKey(job.fingerprint, answer)
        return answer

    def _edit(self, job: NewJob, stored: RefJob) -> Submitted:
        """A job with a future: another schedule starts from now; anything else leaves the rhythm, and is taken on by
        runs that no worker has held. State stays."""
        answer = self._change(job, stored)
        for run in self.live(stored.id):
            if self.restamps and run.worker_id is None:
                run.ready_at = max(run.ready_at, self.now)
        return answer

    def _change(self, job: NewJob, stored: RefJob) -> Submitted:
        stored.options, stored.timeout_ms, old_lane, stored.lane = job.options, job.timeout_ms, stored.lane, job.lane
        if stored.asked == job.schedule and (isinstance(job.schedule, Every) or job.schedule.at is not None):
            waiting = [run for run in self.live(stored.id) if not run.fence]
            for run in waiting:
                moved = run.lane != run.home
                run.home = run.lane = job.lane
                run.options, run.timeout_ms = job.options, job.timeout_ms
                if moved or old_lane != job.lane:
                    run.ready_at = max(run.due_at, self.now)
            due = [run.due_at for run in waiting] + ([stored.next_fire_at] if stored.next_fire_at else [])
            return Submitted(stored.id, min(due, default=None), None, created=False)
        self._withdraw(stored.id)
        stored.asked = job.schedule
        stored.schedule, due_at, scan_at = self._start(job.schedule, stored.id)
        stored.next_fire_at = due_at
        stored.scan_at = scan_at if stored.state is JobState.ACTIVE else None
        return Submitted(stored.id, due_at, None, created=False)

    def _withdraw(self, job_id: UUID) -> None:
        for run in self.live(job_id):
            if not run.fence:
                del self.runs[run.id]

    def _is_live(self, job_id: UUID) -> bool:
        job = self.jobs.get(job_id)
        if job is not None:
            return job.state in (JobState.ACTIVE, JobState.PAUSED)
        return bool(self.live(job_id))

    def _place(self, job: NewJob, job_id: UUID, *, created: bool) -> Submitted:
        schedule, due_at, scan_at = self._start(job.schedule, job_id)
        if isinstance(schedule, Once) and due_at <= self.now + LOOK_AHEAD:
            run_id = NewJob(job_id, job.lane, schedule, job.args).first_run_id()
            self._make_run(run_id, job_id, job.lane, due_at, job.timeout_ms, job.options)
            return Submitted(job_id, due_at, run_id, created)
        self.jobs[job_id] = RefJob(
            job_id,
            job.lane,
            schedule,
            self.now,
            job.timeout_ms,
            job.options,
            next_fire_at=due_at,
            scan_at=scan_at,
            asked=job.schedule,
        )
        return Submitted(job_id, due_at, None, created)

    def _start(self, schedule: Schedule, job_id: UUID) -> tuple[Once | Every, datetime, datetime]:
        """A schedule from now on: when it is due first, and when that comes into view."""
        if isinstance(schedule, Every):
            schedule = schedule.anchored(self.now)
            # Nothing that has been claimed or has ended fires again.
            latest = max([self.now, *(run.due_at for run in self.runs_of(job_id))])
            due_at = schedule.next_after(latest)
            assert due_at is not None
            return schedule, due_at, max(due_at - LOOK_AHEAD, latest) if latest > self.now else due_at - LOOK_AHEAD
        assert isinstance(schedule, Once)
        due_at = max(schedule.at, self.now) if schedule.at else self.now + (schedule.delay or timedelta(0))
        return schedule, due_at, due_at - LOOK_AHEAD

    def _make_run(
        self,
        run_id: UUID,
        job_id: UUID,
        lane: LaneKey,
        due_at: datetime,
        timeout_ms: int | None,
        options: bytes | None,
    ) -> None:
        assert run_id not in self.runs, "an occurrence was fired twice"
        ready_at = max(due_at, self.now)
        self.runs[run_id] = RefRun(run_id, job_id, lane, lane, due_at, ready_at, timeout_ms, options)

    # Firing

    def in_view(self) -> list[RefJob]:
        return [job for job in self.jobs.values() if job.scan_at is not None and job.scan_at <= self.now]

    def fire(self, decided: Iterable[Decided]) -> None:
        for item in decided:
            job = self.jobs[item.job_id]
            if not isinstance(item, Fire):
                job.state, job.next_fire_at, job.scan_at = JobState.PAUSED, None, None
                assert isinstance(item, SetAside)
                continue
            for run in item.runs:
                self._make_run(run.run_id, job.id, job.lane, run.due_at, job.timeout_ms, job.options)
            for skip in item.skips:
                assert skip.run_id not in self.runs, "an occurrence was fired before"
                self.runs[skip.run_id] = RefRun(
                    skip.run_id, job.id, job.lane, job.lane, skip.due_at, skip.due_at, end=RunState.SKIPPED
                )
                self.history += 1
            future = [run for run in self.live(job.id) if run.due_at > self.now]
            assert len(future) <= 1, "a job has more than one future run"
            self._put_on_trial(job.id)
            if item.recurring:
                job.next_fire_at, job.scan_at = item.next_fire_at, item.scan_at
            else:
                del self.jobs[job.id]

    # Leases and claims

    def is_alive(self, worker_id: UUID) -> bool:
        return worker_id in self.workers and self.workers[worker_id] > self.now

    def register(self, worker_id: UUID, lease: timedelta) -> datetime:
        return self._extend(worker_id, lease)

    def _extend(self, worker_id: UUID, lease: timedelta) -> datetime:
        if not self.is_alive(worker_id):
            self.held_since[worker_id] = self.now
        self.workers[worker_id] = self.now + lease
        self.heard[worker_id] = self.now
        return self.workers[worker_id]

    def claim(self, worker_id: UUID, claim_no: int, takes: Iterable[tuple[LaneKey, int]]) -> list[RefRun]:
        if not self.is_alive(worker_id):
            return []
        if (worker_id, claim_no) in self.claims:
            return self.held(worker_id, claim_no)
        claimed = []
        for lane, take in takes:
            ready = [run for run in self.waiting_in(lane) if run.ready_at <= self.now]
            for run in ready[:take]:
                run.worker_id, run.claim_no, run.started_at = worker_id, claim_no, self.now
                run.fence += 1
                run.attempt += 1
                claimed.append(run)
        if claimed:
            self.claims[worker_id, claim_no] = RefClaim(self.now, {run.id for run in claimed})
        return claimed

    def renew(self, worker_id: UUID, lease: timedelta, open_claims: Sequence[int]) -> int:
        """How many runs were freed: those of claims older than a lease that the worker does not list."""
        if worker_id not in self.workers:
            raise LeaseLost("reaped")
        self._extend(worker_id, lease)
        freed = 0
        for (holder, claim_no), claim in list(self.claims.items()):
            if holder != worker_id or claim_no in open_claims or claim.claimed_at >= self.now - lease:
                continue
            if claim.found:
                claim.not_held = True  # it may have begun: that is for the reaper to judge
            else:
                freed += self._free(self.held(worker_id, claim_no))
                del self.claims[holder, claim_no]
        return freed

    def cancellations(self, worker_id: UUID) -> set[UUID]:
        return {run.id for run in self.live() if run.worker_id == worker_id and run.cancel_requested}

    def leave(self, worker_id: UUID) -> None:
        self.workers.pop(worker_id, None)

    def held(self, worker_id: UUID, claim_no: int) -> list[RefRun]:
        claim = self.claims.get((worker_id, claim_no))
        if claim is None:
            return []
        return [
            run
            for run in self.live()
            if (run.worker_id, run.claim_no) == (worker_id, claim_no) and run.id in claim.run_ids
        ]

    def holds(self, worker_id: UUID, run_id: UUID, fence: int) -> RefRun | None:
        run = self.runs.get(run_id)
        return run if run and run.end is None and (run.worker_id, run.fence) == (worker_id, fence) else None

    # Completing

    def complete(
        self,
        worker_id: UUID,
        completions: Iterable[Completion],
        closed: Iterable[int] = (),
        *,
        on_trial: bool = False,
    ) -> set[UUID]:
        """The runs whose completion was refused."""
        refused = set()
        for item in completions:
            run = self.holds(worker_id, item.run_id, item.fence)
            if run is None:
                refused.add(item.run_id)
            else:
                self._complete(run, item, on_trial=on_trial)
        for claim_no in closed:
            claim = self.claims.get((worker_id, claim_no))
            if claim is not None and not claim.found:
                del self.claims[worker_id, claim_no]
        return refused

    def _complete(self, run: RefRun, item: Completion, *, on_trial: bool) -> None:
        state, verdict = item.attempt_state, item.verdict
        tried_again = verdict.delay is not None and not run.cancel_requested
        if verdict.delay is not None and run.cancel_requested:
            state = AttemptState.CANCELLED
        if state is AttemptState.LOST:
            run.lost += 1
            run.attempt -= 1
        run.attempts.append((run.attempt, run.fence, state))
        self.history += 1
        run.worker_id, run.claim_no, run.started_at = None, None, None
        if tried_again:
            assert verdict.delay is not None
            if not verdict.spent and state is not AttemptState.LOST:
                run.attempt -= 1
            run.ready_at = self.now + verdict.delay
            if on_trial:
                run.lane = self._trial_lane(run)
            elif state is AttemptState.FAILED:
                run.lane = run.home
            return
        run.end = RunState.CANCELLED if verdict.delay is not None else _ENDS[verdict.event]
        run.ended_at = self.now
        self.dead_letters += run.end is RunState.FAILED

    def hand_back(self, worker_id: UUID, pairs: Iterable[tuple[UUID, int]]) -> int:
        held = [self.holds(worker_id, run_id, fence) for run_id, fence in pairs]
        return self._free([run for run in held if run is not None])

    def _free(self, runs: Iterable[RefRun]) -> int:
        """These runs wait again as if they had not been claimed; those with a requested cancellation end."""
        count = 0
        for run in runs:
            count += 1
            run.worker_id, run.claim_no, run.started_at = None, None, None
            run.attempt -= 1
            run.ready_at = self.now
            if run.cancel_requested:
                self._cancel_waiting(run)
        return count

    # Reaping

    def reap(self, judge: JudgeLost, overdue: timedelta) -> int:
        judged = 0
        self._sweep()
        self.workers = {worker_id: until for worker_id, until in self.workers.items() if until > self.now}
        self._suspect()
        for worker_id, claim_no in list(self.claims):
            held = self.held(worker_id, claim_no)
            not_held = self.claims[worker_id, claim_no].not_held
            if not_held or worker_id not in self.workers:
                lost = [self._lost(run, timed_out=False) for run in held]
                self.complete(worker_id, judge(lost), on_trial=not not_held)
                del self.claims[worker_id, claim_no]
            else:
                late = [run for run in held if run.timeout_ms is not None]
                lost = [self._lost(run, timed_out=True) for run in late]
                lost = [
                    item
                    for item, run in zip(lost, late, strict=True)
                    if item.ran_for > timedelta(milliseconds=run.timeout_ms or 0) + overdue
                ]
                self.complete(worker_id, judge(lost))
            judged += len(lost)
        self._reassess_suspects()
        return judged

    def _suspect(self) -> None:
        """Recurring jobs that had runs in workers that are gone; a worker counts once."""
        gone = [
            (worker_id, run)
            for (worker_id, claim_no), claim in self.claims.items()
            if worker_id not in self.workers and not claim.not_held
            for run in self.held(worker_id, claim_no)
        ]
        deaths: dict[UUID, dict[UUID, datetime]] = {}
        for worker_id, run in gone:
            if run.job_id in self.jobs and isinstance(self.jobs[run.job_id].schedule, Every):
                died = deaths.setdefault(run.job_id, {})
                assert run.started_at is not None
                died[worker_id] = max(self.heard[worker_id], run.started_at, died.get(worker_id, run.started_at))
        for job_id, workers in deaths.items():
            before, _, last = self.suspects.get(job_id, (0, self.now, min(self.heard.values())))
            before = 0 if self._is_harmless(job_id, last) else before
            self.suspects[job_id] = before + len(workers), self.now, max(last, *workers.values())
        self.trial_lanes |= {self._trial_lane(run, run.lost + 1) for _, run in gone}

    def _trial_lane(self, run: RefRun, lost: int | None = None) -> LaneKey:
        in_a_row = self.suspects[run.job_id][0] if run.job_id in self.suspects else 0
        return run.home.on_trial(trial_after(max(run.lost if lost is None else lost, in_a_row)))

    def _reassess_suspects(self) -> None:
        """Jobs of which a run has come to its end since are cleared; what waits of the others is put on trial."""
        suspected = set(self.suspects)
        self._clear_suspects()
        for job_id in suspected - self.suspects.keys():
            self._take_off_trial(job_id)
        for job_id in self.suspects:
            self._put_on_trial(job_id)

    def _clear_suspects(self) -> None:
        for job_id, (_, lost_at, died_at) in list(self.suspects.items()):
            if lost_at < self.now - FORGET_JOBS or self._is_harmless(job_id, died_at):
                del self.suspects[job_id]

    def _is_harmless(self, job_id: UUID, died_at: datetime) -> bool:
        ended = [run for run in self.runs_of(job_id) if run.end is not None][:5]
        return any(_proves_harmless(run, died_at) for run in ended)

    def _take_off_trial(self, job_id: UUID) -> None:
        for run in self.live(job_id):
            lane = self._trial_lane(run) if run.lost else run.home
            if run.worker_id is None and run.lane.trial > lane.trial and lane in {run.home, *self.trial_lanes}:
                run.lane, run.ready_at = lane, max(run.ready_at, self.now)

    def _put_on_trial(self, job_id: UUID) -> None:
        if job_id in self.suspects:
            trial = trial_after(self.suspects[job_id][0])
            for run in self.live(job_id):
                lane = run.home.on_trial(trial)
                is_kept = run.lane.trial > Trial.NONE or not run.attempt  # one that has failed is off trial
                is_due = run.lane != lane and (not run.fence or (run.lane.trial < trial and is_kept))
                if run.worker_id is None and is_due and lane in self.trial_lanes:
                    run.lane, run.ready_at = lane, max(run.ready_at, self.now)

    def _sweep(self) -> None:
        """Running runs that no claim lists are listed again; under a number of their own where theirs is taken."""
        listed = {run.id for worker_id, claim_no in self.claims for run in self.held(worker_id, claim_no)}
        strays: dict[tuple[UUID, int], set[UUID]] = {}
        for run in self.live():
            if run.worker_id is None or run.id in listed:
                continue
            assert run.started_at is not None
            assert run.claim_no is not None
            if not self.now - SETTLED <= run.started_at <= self.now:
                strays.setdefault((run.worker_id, run.claim_no), set()).add(run.id)
        for (worker_id, claim_no), run_ids in strays.items():
            if (worker_id, claim_no) not in self.claims:
                self.claims[worker_id, claim_no] = RefClaim(self.now, run_ids, found=True)
                continue
            apart = min([0, *(number for _, number in self.claims)]) - 1
            for run_id in run_ids:
                self.runs[run_id].claim_no = apart
            self.claims[worker_id, apart] = RefClaim(self.now, run_ids, found=True, not_held=True)

    def _lost(self, run: RefRun, *, timed_out: bool) -> Lost:
        assert run.started_at is not None
        began = run.started_at
        if run.worker_id in self.workers:
            began = max(began, self.held_since[run.worker_id])
        ran_for = self.now - began
        return Lost(run.id, run.fence, run.attempt, run.lost, run.options, run.cancel_requested, timed_out, ran_for)

    # Control

    def cancel_job(self, tenant_id: int, job_id: UUID) -> None:
        job = self.jobs.get(job_id)
        lanes = [job.lane] if job else [run.home for run in self.runs_of(job_id)]
        if not any(lane.tenant_id == tenant_id for lane in lanes):
            raise NotFound("no such job")
        if job is not None and isinstance(job.schedule, Once):
            due_at = job.next_fire_at or job.created_at
            del self.jobs[job_id]
            run_id = once_run_id(job_id, due_at)
            self.runs[run_id] = RefRun(run_id, job_id, job.lane, job.lane, due_at, due_at, end=RunState.CANCELLED)
            self.history += 1
        elif job is not None and job.state in (JobState.ACTIVE, JobState.PAUSED):
            job.state, job.next_fire_at, job.scan_at = JobState.CANCELLED, None, None
        for run in self.live(job_id):
            self._stop(run)

    def edit_job(self, tenant_id: int, job_id: UUID, job: NewJob) -> None:
        """Make a job that has a future what this request asks for."""
        stored = self.jobs.get(job_id)
        if stored is None or stored.lane.tenant_id != tenant_id:
            if any(run.home.tenant_id == tenant_id for run in self.runs_of(job_id)):
                raise Conflict("it is due, or over")
            raise NotFound("no such job")
        if stored.state not in (JobState.ACTIVE, JobState.PAUSED):
            raise Conflict("it is over")
        self._edit(job, stored)

    def cancel_run(self, tenant_id: int, run_id: UUID) -> None:
        run = self.runs.get(run_id)
        if run is None or run.home.tenant_id != tenant_id:
            raise NotFound("no such run")
        if run.end is None:
            self._stop(run)

    def _stop(self, run: RefRun) -> None:
        if run.worker_id is None:
            self._cancel_waiting(run)
        else:
            run.cancel_requested = True

    def _cancel_waiting(self, run: RefRun) -> None:
        run.end = RunState.CANCELLED
        self.history += 1


def _proves_harmless(run: RefRun, died_at: datetime) -> bool:
    """Whether its last attempt came to an end in a worker that lived."""
    last = run.attempts[-1][2] if run.attempts else None
    return run.ended_at is not None and run.ended_at > died_at and last in (AttemptState.SUCCEEDED, AttemptState.FAILED)

"""Why a run or a job waits, in words, with the fix.

The store gathers facts in one snapshot (`store/shared/waiting.py`); `why_run_waits` and `why_job_waits` turn them into
reasons, the first of which holds it now. A waiting run always has a reason. Times in texts are relative, so that they
need no time zone; `until` has the moment.

A caller with a scope gets facts without what belongs to others (`RunFacts.within`): no ids, names or counts.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

import msgspec

from duetime.model.attempt import Attempt, AttemptState
from duetime.model.breaker import BreakerState
from duetime.model.job import JobState
from duetime.model.lane import Tier, Trial
from duetime.model.limits import LimitKind, Rate
from duetime.model.run import RunState, WaitsFor
from duetime.model.suspicion import pause_after
from duetime.model.tenant import TenantState

ReasonCode = Literal[
    "not_due",
    "job_paused",
    "job_problem",
    "follows",
    "fire_rate",
    "firing",
    "tenant_suspended",
    "queue_paused",
    "no_worker",
    "no_worker_for_queue",
    "workers_full",
    "tenant_limit",
    "queue_limit",
    "queue_rate",
    "key_limit",
    "rate_limit",
    "breaker",
    "overlap",
    "parents",
    "retry_delay",
    "snoozed",
    "trial",
    "newer_release",
    "behind",
    "in_stream",
    "ready",
]

AHEAD_CAP = 10_000
"""Runs ahead of a run that are counted at most."""
NAMED = 5
"""Runs or jobs that a reason names at most."""
NEWER_RELEASE = "it waits for a node of a newer release"
"""How the message of a run begins whose limits no node could read (`store/rules/limit_scopes.py`)."""
_SOON = timedelta(seconds=1)


class Reason(msgspec.Struct, frozen=True):
    code: ReasonCode
    text: str
    fix: str | None = None
    """What to do about it; None: nothing, it passes by itself."""
    until: datetime | None = None
    run_ids: tuple[UUID, ...] = ()
    """Runs that it waits for, some of them."""
    job_ids: tuple[UUID, ...] = ()


def in_words(text: str, fix: str | None) -> str:
    """A reason as one text."""
    return text if fix is None else f"{text} {fix}"


class LimitFacts(msgspec.Struct, frozen=True):
    """How a limit stands."""

    kind: LimitKind
    name: str
    running: int | None = None
    live: int | None = 0
    """Runs that hold it; None: hidden."""
    full: bool = False
    rate: Rate | None = None
    free_at: datetime | None = None
    """When the next start is allowed; None: now."""
    holders: tuple[UUID, ...] = ()


class Serving(msgspec.Struct, frozen=True):
    """The workers for a task."""

    workers: int = 0
    """Live ones that have the task and serve the queue."""
    elsewhere: int = 0
    """Live ones that have the task, and serve only other queues."""
    slots: int = 0
    busy: int = 0
    last_name: str | None = None
    """The one that ended last."""
    last_ended_at: datetime | None = None
    last_lost: bool = False


class WaitingParent(msgspec.Struct, frozen=True):
    job_id: UUID
    name: str | None


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What decides when a live run starts."""

    now: datetime
    run_id: UUID
    job_id: UUID
    state: RunState
    task: str
    queue: str
    tier: Tier
    due_at: datetime
    ready_at: datetime
    trial: int = Trial.NONE
    waits: WaitsFor = WaitsFor.NOTHING
    tenant_state: TenantState = TenantState.ACTIVE
    paused_at: datetime | None = None
    """Since when the queue is paused."""
    parked: LimitFacts | None = None
    """The key that is full, while the run is in no lane because of it."""
    put_off: LimitFacts | None = None
    """The rate that is used up, while the run waits for its moment."""
    limits: tuple[LimitFacts, ...] = ()
    """Those of the tenant and the queue."""
    breaker: tuple[str, BreakerState, datetime | None] | None = None
    """Of its target: the name, the state, and until when."""
    serving: Serving = Serving()
    higher: int | None = 0
    """Ready runs of the queue with a higher priority; None: hidden."""
    earlier: int | None = 0
    """Ready runs of the queue with the same priority that became ready before. Together, up to a cap."""
    other_runs: tuple[UUID, ...] = ()
    """Runs of the same job that run, or wait before this one."""
    parents: tuple[WaitingParent, ...] = ()
    """Those that have not ended, some of them."""
    unended: int = 0
    losses: int = 0
    """Workers that its task or job has lost in a row."""
    lost_at: datetime | None = None
    whole: bool = True
    """False: what belongs to others is hidden."""

    def within(self, runs: Collection[UUID], jobs: Collection[UUID]) -> "RunFacts":
        """As a caller sees it whose scope has these runs and jobs, of those that the facts name."""
        parents = tuple(each for each in self.parents if each.job_id in jobs)
        return msgspec.structs.replace(
            self,
            parked=self.parked and _hidden(self.parked, runs),
            put_off=self.put_off and _hidden(self.put_off, runs),
            limits=tuple(_hidden(each, runs) for each in self.limits),
            serving=Serving(self.serving.workers, self.serving.elsewhere, self.serving.slots, self.serving.busy),
            higher=None if self.higher else 0,
            earlier=None if self.earlier else 0,
            other_runs=tuple(each for each in self.other_runs if each in runs),
            parents=parents,
            unended=len(parents),
            whole=False,
        )

    @property
    def named_runs(self) -> set[UUID]:
        limits = (self.parked, self.put_off, *self.limits)
        return {run_id for each in limits if each is not None for run_id in each.holders} | set(self.other_runs)

    @property
    def named_jobs(self) -> set[UUID]:
        return {parent.job_id for parent in self.parents}


def _hidden(limit: LimitFacts, runs: Collection[UUID]) -> LimitFacts:
    holders = tuple(each for each in limit.holders if each in runs)
    return msgspec.structs.replace(limit, live=None, running=None, holders=holders)


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What decides when a job gets its next run."""

    now: datetime
    state: JobState
    next_run: datetime | None
    problem: str | None = None
    is_follower: bool = False
    """Whether it runs after the runs of another job."""
    follows: UUID | None = None
    """That job; None: hidden."""
    tenant_state: TenantState = TenantState.ACTIVE
    held_back: bool = False
    """Whether the tenant's rate of fires delays it."""
    fires_per_second: float | None = None

    def within(self, jobs: Collection[UUID]) -> "JobFacts":
        """As a caller sees it whose scope has these jobs, of those that the facts name."""
        follows = self.follows if self.follows in jobs else None
        return msgspec.structs.replace(self, follows=follows, fires_per_second=None)


def why_run_waits(facts: RunFacts, last: Attempt | None = None, message: str | None = None) -> list[Reason]:
    """Why a run has not started: `last` is its last attempt, `message` its message. Empty if it does not wait."""
    if facts.state.is_end or facts.state is RunState.RUNNING:
        return []
    reasons = _bound(facts)
    timed = _until_ready(facts, last, message)
    stopped = _stopped(facts)
    if reasons or timed:
        return [*reasons, *timed, *stopped]
    reasons = [*stopped, *_no_worker(facts), *_limited(facts), *_open_breaker(facts), *_on_trial(facts)]
    reasons += _behind(facts) if facts.serving.workers else []
    return reasons or [_ready(facts)]


def _bound(facts: RunFacts) -> list[Reason]:
    """What holds a run that is in no lane."""
    if facts.waits is WaitsFor.PARENTS:
        return [_parents(facts)]
    if facts.waits is WaitsFor.OTHER_RUNS:
        text = "Its job runs one run at a time (overlap: queue), and another run is ahead of it."
        fix = "It starts when that run has ended. To start sooner, cancel that run, or set overlap to allow."
        return [Reason("overlap", text, fix, run_ids=facts.other_runs[:NAMED])]
    if facts.parked is not None:
        return [_key_limit(facts.parked)]
    return []


def _parents(facts: RunFacts) -> Reason:
    names = [each.name for each in facts.parents if each.name is not None][:3]
    more = facts.unended - len(names)
    who = ", ".join(names) + (f" and {more:,} more" if names and more > 0 else "")
    count = "a job" if facts.unended == 1 else f"{facts.unended:,} jobs" if facts.unended else "other jobs"
    text = f"It depends on {count} that {'has' if facts.unended == 1 else 'have'} not ended" + (
        f": {who}." if who else "."
    )
    fix = "It starts when they have ended as required. Look at the first of them to see why it waits."
    return Reason("parents", text, fix, job_ids=tuple(each.job_id for each in facts.parents[:NAMED]))


def _key_limit(limit: LimitFacts) -> Reason:
    if limit.kind is LimitKind.TARGET:
        return Reason("breaker", f"The breaker of {limit.name} lets no more runs through now.", _BREAKER_FIX)
    held = f"{limit.live:,} of {limit.running:,} " if limit.live is not None and limit.running is not None else ""
    text = f"Its concurrency key {limit.name!r} is in use{f': {held}runs hold it' if held else ''}."
    fix = "It starts when one of them ends. To run more at once, raise the concurrency of the jobs with this key."
    return Reason("key_limit", text, fix, run_ids=limit.holders[:NAMED])


def _until_ready(facts: RunFacts, last: Attempt | None, message: str | None) -> list[Reason]:
    """Why its moment has not come."""
    if facts.ready_at <= facts.now:
        return []
    until = facts.ready_at
    soon = _in(until - facts.now)
    if message is not None and message.startswith(NEWER_RELEASE):
        fix = "Upgrade the workers, or correct the limits of the job."
        return [Reason("newer_release", f"{message[0].upper()}{message[1:]}.", fix, until)]
    if facts.put_off is not None:
        return [_put_off(facts.put_off, until, soon)]
    if last is not None and facts.due_at <= facts.now and last.state is AttemptState.SNOOZED:
        return [Reason("snoozed", f"Its task put itself off; it continues {soon}.", until=until)]
    if last is not None and facts.due_at <= facts.now and last.state in (AttemptState.FAILED, AttemptState.LOST):
        said = (last.error or "").partition("\n")[0][:200]
        how = "lost its worker" if last.state is AttemptState.LOST else "failed"
        text = f"Attempt {last.attempt} {how}{f': {said}' if said else ''}. The next attempt is {soon}."
        return [Reason("retry_delay", text, "To start sooner, retry the run now.", until)]
    return [Reason("not_due", f"It is due {soon}.", until=until)]


def _put_off(limit: LimitFacts, until: datetime, soon: str) -> Reason:
    if limit.kind is LimitKind.TARGET:
        text = f"The breaker of {limit.name} lets runs through slowly; this one starts {soon}."
        return Reason("breaker", text, _BREAKER_FIX, until)
    allowed = "" if limit.rate is None else f" ({limit.rate})"
    text = f"The rate of its key {limit.name!r}{allowed} is used up; it has the slot {soon}."
    return Reason("rate_limit", text, "To start sooner, raise the rate of the jobs with this key.", until)


def _stopped(facts: RunFacts) -> list[Reason]:
    reasons = []
    if facts.tenant_state is not TenantState.ACTIVE:
        deleting = facts.tenant_state is TenantState.DELETING
        text = (
            "The tenant is being deleted: nothing starts." if deleting else "The tenant is suspended: nothing starts."
        )
        fix = "An operator can take the deletion back." if deleting else "An operator can activate the tenant again."
        reasons.append(Reason("tenant_suspended", text, fix))
    if facts.paused_at is not None:
        since = _span(facts.now - facts.paused_at)
        text = f"The queue {facts.queue} has been paused for {since}."
        reasons.append(Reason("queue_paused", text, f"Resume it: duetime queues resume {facts.queue}"))
    return reasons


def _no_worker(facts: RunFacts) -> list[Reason]:
    serving = facts.serving
    if serving.workers:
        return []
    if serving.elsewhere:
        text = f"Live workers have {facts.task}, but none of them serves the queue {facts.queue}."
        return [Reason("no_worker_for_queue", text, f"Start a worker with --queue {facts.queue}.")]
    text = f"No live worker has {facts.task}"
    if serving.last_ended_at is not None:
        how = "was lost" if serving.last_lost else "left"
        text += f"; the last one, {serving.last_name}, {how} {_span(facts.now - serving.last_ended_at)} ago"
    elif facts.whole:
        text += ", and none had it within a day"
    return [Reason("no_worker", f"{text}.", "Start a worker with the app that has this task, or correct its name.")]


def _limited(facts: RunFacts) -> list[Reason]:
    reasons = []
    for limit in facts.limits:
        counts = limit.live is not None and limit.running is not None
        if limit.full and limit.kind is LimitKind.TENANT:
            held = f": {limit.live:,} of {limit.running:,}" if counts else ""
            text = f"The tenant runs as many runs as it may{held}."
            fix = "It starts when one of them ends. An operator can raise running_runs of the tenant."
            reasons.append(Reason("tenant_limit", text, fix, run_ids=limit.holders[:NAMED]))
        elif limit.full and limit.kind is LimitKind.QUEUE:
            held = f": {limit.live:,} of {limit.running:,}" if counts else ""
            text = f"The queue {limit.name} runs as many runs as it may{held}."
            fix = f"It starts when one of them ends. To raise the limit: duetime queues limit {limit.name} --running N"
            reasons.append(Reason("queue_limit", text, fix, run_ids=limit.holders[:NAMED]))
        if limit.free_at is not None and limit.kind is LimitKind.QUEUE:
            allowed = "" if limit.rate is None or not facts.whole else f" ({limit.rate})"
            slot = _in(limit.free_at - facts.now)
            text = f"The queue {limit.name} has used up its rate{allowed}; the next slot is {slot}."
            fix = f"To raise it: duetime queues limit {limit.name} --rate 100/m"
            reasons.append(Reason("queue_rate", text, fix, limit.free_at))
    return reasons


_BREAKER_FIX = "It closes by itself when the target answers again; duetime breakers reset closes it now."


def _open_breaker(facts: RunFacts) -> list[Reason]:
    if facts.breaker is None or facts.breaker[1] is BreakerState.CLOSED:
        return []
    target, state, until = facts.breaker
    how = {
        BreakerState.OPEN: "is open because its calls failed",
        BreakerState.PROBING: "lets single runs through to see whether it answers",
        BreakerState.RECOVERING: "lets the waiting runs through little by little",
    }[state]
    return [Reason("breaker", f"The breaker of {target} {how}.", _BREAKER_FIX, until)]


def _on_trial(facts: RunFacts) -> list[Reason]:
    if facts.trial == Trial.NONE:
        return []
    how = "in a worker that does nothing else" if facts.trial >= Trial.ALONE else "a few at a time"
    who = "It or its task" if facts.whole else "It"
    text = f"{who} was running when workers died, so it is tried with care: {how}."
    opens = None
    if facts.losses and facts.lost_at is not None and (pause := pause_after(facts.losses)):
        opens = facts.lost_at + timedelta(seconds=pause)
        if opens > facts.now:
            text += f" The next try is {_in(opens - facts.now)}."
        else:
            opens = None
    return [Reason("trial", text, "Look at the memory and the crashes of the workers that it was lost with.", opens)]


def _behind(facts: RunFacts) -> list[Reason]:
    serving, reasons = facts.serving, []
    if serving.slots and serving.busy >= serving.slots:
        if facts.whole:
            workers = "the live worker" if serving.workers == 1 else f"the {serving.workers:,} live workers"
            text = f"All {serving.slots:,} slots of {workers} with {facts.task} are in use."
        else:
            text = f"All slots of the workers with {facts.task} are in use."
        reasons.append(Reason("workers_full", text, "Start more workers, or give them more slots."))
    if facts.higher is None or facts.earlier is None:
        text = "Other runs of the queue go first."
        reasons.append(Reason("behind", text, "Raise its priority, or start more workers."))
    elif facts.higher or facts.earlier:
        more = " or more" if facts.higher + facts.earlier >= AHEAD_CAP else ""
        parts = [
            f"{facts.higher:,}{more} with a higher priority" if facts.higher else "",
            f"{facts.earlier:,}{more} that became ready before it" if facts.earlier else "",
        ]
        text = f"Other runs of the queue {facts.queue} go first: {' and '.join(filter(None, parts))}."
        reasons.append(Reason("behind", text, "Raise its priority, or start more workers."))
    return reasons


def _ready(facts: RunFacts) -> Reason:
    if facts.now - facts.ready_at < _SOON:
        return Reason("ready", "Nothing holds it: a worker takes it in a moment.")
    text = f"Nothing holds it: it has been ready for {_span(facts.now - facts.ready_at)}, and workers for it are alive."
    return Reason("ready", text, "If it stays so, look at the logs of these workers: duetime doctor")


def why_job_waits(facts: JobFacts) -> list[Reason]:
    """Why a job without a waiting run has not got one. Empty for a job that has ended."""
    if facts.state >= JobState.ENDED:
        return []
    if facts.problem is not None:
        text = f"The scheduler has set it aside: {facts.problem}"
        return [Reason("job_problem", text, "Correct the job, and resume it.")]
    if facts.state is JobState.PAUSED:
        return [Reason("job_paused", "The job is paused.", "Resume it: duetime jobs resume JOB")]
    if facts.is_follower:
        job_ids = () if facts.follows is None else (facts.follows,)
        return [Reason("follows", "It runs after each run of another job.", job_ids=job_ids)]
    reasons = []
    if facts.next_run is not None and facts.next_run > facts.now:
        reasons.append(
            Reason("not_due", f"Its next run is due {_in(facts.next_run - facts.now)}.", until=facts.next_run)
        )
    if facts.tenant_state is not TenantState.ACTIVE:
        text = "The tenant is suspended: nothing is fired."
        reasons.append(Reason("tenant_suspended", text, "An operator can activate the tenant again."))
    elif facts.held_back:
        rate = "" if facts.fires_per_second is None else f" ({facts.fires_per_second:g} per second)"
        text = f"The tenant fires as many runs as it may{rate}: it is fired in its turn."
        reasons.append(Reason("fire_rate", text, "An operator can raise fires_per_second of the tenant."))
    if not reasons and facts.next_run is not None:
        fix = "If it stays so, no server fires jobs: duetime doctor"
        reasons.append(Reason("firing", "It is due, and a server creates its run in a moment.", fix))
    return reasons


IN_STREAM = Reason(
    "in_stream",
    "It may be waiting in the stream of its queue, or running: the database has no row of it.",
    "It appears when it ends, fails, or runs for five seconds.",
)


def _in(span: timedelta) -> str:
    return "now" if span <= timedelta(0) else f"in {_span(span)}"


def _span(span: timedelta) -> str:
    """Such as `12 min`, in one unit."""
    seconds = max(0.0, span.total_seconds())
    for size, unit in ((172_800, "d"), (7_200, "h"), (120, "min")):
        if seconds >= size:
            return f"{seconds / {'d': 86_400, 'h': 3_600, 'min': 60}[unit]:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"

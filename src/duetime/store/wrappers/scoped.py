"""A store as a caller with a scope sees it (`model/scope.py`): the one place where scopes are enforced.

It has the methods that are written here, and no others: every other role and method refuses (`AccessDenied`), so that
whatever is added to a store is closed to such callers until it is written here.

A job is checked before it is read or changed, by one statement that does the same for a job outside the scope and for
one that does not exist; both get the same `NotFound`. Whether a job in a stream belongs to the scope cannot be told: it
does not exist for the caller until it is in the store. A job that changes its owner between the check and the change is
changed once more by its last owner.
"""

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, Generic, NoReturn, Protocol, TypeVar, overload
from uuid import UUID

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from duetime.errors import AccessDenied, InvalidInput, KeyInFlight, KeyReused, NotFound, QuotaExceeded
from duetime.ids import new_id, show
from duetime.model.attempt import Run
from duetime.model.calendar import Calendar
from duetime.model.edit import Changes
from duetime.model.event import Event
from duetime.model.firing import Backfill
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import Job, NewJob, Submitted, decode_options
from duetime.model.lists import (
    DeadFilter,
    DeadLetter,
    JobFilter,
    JobItem,
    JobReport,
    JobsByName,
    NamePlace,
    Page,
    Replayed,
    ReplayPace,
    RunEnd,
    RunFilter,
    RunItem,
)
from duetime.model.schedule import After, Schedule
from duetime.model.scope import Facts, Scope
from duetime.model.target import is_target
from duetime.model.waiting import JobFacts, RunFacts
from duetime.store.protocol.service import Answers, Figures, Lists, Replay
from duetime.store.protocol.store import ROLES, Calendars, Control, Lifecycle, Reads, Store
from duetime.store.protocol.waiting import Waiting
from duetime.store.rules.labels import payload_in

S = TypeVar("S", bound=Store)
R = TypeVar("R")
T = TypeVar("T")
Item = TypeVar("Item", RunItem, DeadLetter)

SHARED = ("concurrency_key", "concurrency", "rate_key", "rate")
"""Keys and their values: the last run with a key sets them for all jobs of the tenant that have it."""
_TOGETHER = 5000


def closed() -> AccessDenied:
    return AccessDenied(
        "a key or token with a scope may not do this", remedy="use a key without an owner, tag and queue"
    )


def within(store: S, scope: Scope) -> S:
    """This store, as a caller with this scope sees it."""
    made = copy.copy(store)
    for name in ROLES:
        setattr(made, name, Closed())
    bounds = Bounds(store, scope)
    open_roles: dict[str, Callable[[Any, Bounds], object]] = {
        "lifecycle": ScopedLifecycle,
        "lists": ScopedLists,
        "waiting": ScopedWaiting,
        "reads": ScopedReads,
        "control": ScopedControl,
        "replay": ScopedReplay,
        "figures": ScopedFigures,
        "calendars": ScopedCalendars,
        "answers": ScopedAnswers,
    }
    for name, role in open_roles.items():
        setattr(made, name, role(getattr(store, name), bounds))
    return made


class Closed:
    """A role, or the rest of one, that callers with a scope may not use."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise closed()


class Bounds:
    """Decides what is in a scope."""

    def __init__(self, store: Store, scope: Scope) -> None:
        self._lists = store.lists
        self._reads = store.reads
        self.scope = scope

    async def jobs(self, tenant_id: int, job_ids: Collection[UUID]) -> set[UUID]:
        """Those of the jobs that are in the scope."""
        facts = await self._lists.facts_of_jobs(tenant_id, job_ids)
        return {job_id for job_id, each in facts.items() if each.queue is not None and self.scope.admits(each)}

    async def runs(self, tenant_id: int, run_ids: Collection[UUID]) -> set[UUID]:
        jobs = await self._lists.jobs_of_runs(tenant_id, run_ids)
        inside = await self.jobs(tenant_id, set(jobs.values()))
        return {run_id for run_id, job_id in jobs.items() if job_id in inside}

    async def job(self, tenant_id: int, job_id: UUID) -> None:
        if job_id not in await self.jobs(tenant_id, [job_id]):
            raise NotFound(f"there is no job {show('job', job_id)}")

    async def run(self, tenant_id: int, run_id: UUID) -> None:
        if run_id not in await self.runs(tenant_id, [run_id]):
            raise NotFound(f"there is no run {show('run', run_id)}")

    def agrees(self, filter: JobFilter | RunFilter | DeadFilter) -> bool:
        """Whether the filter asks for anything in the scope."""
        scope = self.scope
        owner = filter.owner if isinstance(filter, JobFilter) else filter.within and filter.within.owner
        return scope.owner in (None, owner or scope.owner) and scope.queue in (None, filter.queue or scope.queue)

    def narrowed(self, filter: T) -> T:
        """The filter, for what is in the scope only."""
        queue = {} if self.scope.queue is None else {"queue": self.scope.queue}
        kept = self.scope if self.scope.owner else replace(self.scope, owner=_owner(filter))
        return replace(filter, within=kept, **queue)  # type: ignore[type-var]

    async def still_in(self, tenant_id: int, page: Page[Item]) -> Page[Item]:
        """The page without runs whose jobs have left the queue of the scope: a run keeps the queue that it had."""
        if self.scope.queue is None or not page.items:
            return page
        inside = await self.jobs(tenant_id, {item.job_id for item in page.items})
        return replace(page, items=tuple(item for item in page.items if item.job_id in inside))

    async def check(self, tenant_id: int, jobs: Sequence[NewJob]) -> None:
        """Refuse jobs that a caller with this scope may not create."""
        scope, parents = self.scope, set[UUID]()
        for job in jobs:
            options = decode_options(job.options)
            facts = Facts(options.owner, options.tags, job.lane.queue)
            if not scope.admits(facts):
                raise self._outside(facts)
            if is_target(job.lane.task):
                raise refused("target", "name a task of a worker")
            if job.key is not None:
                raise refused("key", "use idempotency_key")
            if payload_in(job.options) is not None:
                raise refused("payload_ref", "put the values in args")
            parents |= set() if job.depends_on is None else set(job.depends_on.parents)
            parents |= _followed(job.schedule)
        await self._check_parents(tenant_id, parents)

    async def _check_parents(self, tenant_id: int, parents: set[UUID]) -> None:
        missing = parents - await self.jobs(tenant_id, parents)
        if missing:
            raise NotFound(f"there is no job {show('job', min(missing))}")

    async def check_changes(self, tenant_id: int, job_id: UUID, changes: Changes) -> None:
        """Refuse changes that a caller with this scope may not make."""
        job = await self._reads.job(tenant_id, job_id)
        options = {"owner": job.options.owner, "tags": job.options.tags, **changes.options}
        queue = job.queue if changes.queue is UNSET else changes.queue
        after = Facts(options["owner"], tuple(options["tags"]), queue)
        if not self.scope.admits(after):
            raise self._outside(after)
        if is_target(job.task) and (changes.args is not UNSET or changes.task is not UNSET):
            raise refused("target", "use a key without a scope")
        for name in (*SHARED, "breaker_key"):
            if name in changes.options and changes.options[name] != getattr(job.options, name):
                raise refused(name, "omit it: it is shared by all jobs of the tenant")
        if str(changes.options.get("payload_ref") or "").startswith("pay_"):
            raise refused("payload_ref", "put the values in args")

        if not isinstance(changes.schedule, UnsetType):
            await self._check_parents(tenant_id, _followed(changes.schedule))

    def _outside(self, facts: Facts) -> InvalidInput:
        wrong = (name for name, value in self.scope.named().items() if not Scope(**{name: value}).admits(facts))
        return InvalidInput(f"must be in the scope of the caller: {self.scope}", field=next(wrong), remedy="omit it")

    @overload
    def keyed(self, request: KeyedRequest) -> AbstractContextManager[KeyedRequest]: ...
    @overload
    def keyed(self, request: KeyedRequest | None) -> AbstractContextManager[KeyedRequest | None]: ...

    @contextmanager
    def keyed(self, request: KeyedRequest | None) -> Iterator[Any]:
        """The request inside the block, with a key that no other scope can meet. The request learns whether it was
        answered before."""
        if request is None:
            yield None
            return
        kept = KeyedRequest(self.scope.private_key(request.key), request.fingerprint)
        with _own_keys((request.key, kept.key)):
            yield kept
        request.replayed = kept.replayed

    def private_job(self, job: NewJob) -> NewJob:
        if job.idempotency_key is None:
            return job
        # A nonce is a key like any other here: an id that is computed from it could meet another caller's.
        job_id = new_id() if job.by_nonce else job.id
        return replace(job, id=job_id, idempotency_key=self.scope.private_key(job.idempotency_key), by_nonce=False)


class EventFacts:
    """What of the jobs and runs in some events of a tenant decides about scopes: read once, however many callers with a
    scope listen."""

    def __init__(self, jobs: Mapping[UUID, Facts], jobs_of_runs: Mapping[UUID, UUID]) -> None:
        self._jobs = jobs
        self._jobs_of_runs = jobs_of_runs

    @classmethod
    async def of(cls, lists: Lists, tenant_id: int, events: Iterable[Event]) -> "EventFacts":
        jobs, runs = set[UUID](), set[UUID]()
        for event in events:
            (jobs if event.kind.of_jobs else runs).update(event.ids)
        jobs_of_runs: dict[UUID, UUID] = {}
        for some in _parts(runs):
            jobs_of_runs |= await lists.jobs_of_runs(tenant_id, some)
        facts: dict[UUID, Facts] = {}
        for some in _parts(jobs | set(jobs_of_runs.values())):
            facts |= await lists.facts_of_jobs(tenant_id, some)
        return cls(facts, jobs_of_runs)

    def within(self, scope: Scope, event: Event) -> Event | None:
        """The part of an event that is in the scope; None if nothing is."""
        ids = tuple(each for each in event.ids if self._admits(scope, each, event))
        return replace(event, ids=ids) if ids else None

    def _admits(self, scope: Scope, each: UUID, event: Event) -> bool:
        job_id = each if event.kind.of_jobs else self._jobs_of_runs.get(each)
        facts = None if job_id is None else self._jobs.get(job_id)
        return facts is not None and facts.queue is not None and scope.admits(facts)


def _parts(ids: Collection[UUID]) -> Iterator[list[UUID]]:
    """A few thousand at a time: an event can name the jobs of a whole batch."""
    listed = list(ids)
    for start in range(0, len(listed), _TOGETHER):
        yield listed[start : start + _TOGETHER]


def refused(field: str, remedy: str) -> InvalidInput:
    return InvalidInput("cannot be given by a caller with a scope", field=field, remedy=remedy)


def _owner(filter: object) -> str | None:
    """The owner that a list of runs asks for."""
    asked = None if isinstance(filter, JobFilter) else getattr(filter, "within", None)
    return None if asked is None else asked.owner


def _followed(schedule: Schedule) -> set[UUID]:
    """The job whose runs a schedule follows."""
    return {schedule.job} if isinstance(schedule, After) else set()


class _Scoped(Closed, Generic[R]):
    def __init__(self, inner: R, bounds: Bounds) -> None:
        self._inner = inner
        self._bounds = bounds


class ScopedLifecycle(_Scoped[Lifecycle]):
    async def now(self) -> datetime:
        return await self._inner.now()


class ScopedCalendars(_Scoped[Calendars]):
    async def calendars(self, tenant_id: int) -> list[Calendar]:
        """Calendars belong to all jobs of the tenant, and previews need their days."""
        return await self._inner.calendars(tenant_id)


class ScopedLists(_Scoped[Lists]):
    async def list_jobs(
        self, tenant_id: int, filter: JobFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[JobItem]:
        if filter.ids is not None:
            raise closed()
        if not self._bounds.agrees(filter):
            return Page(())
        return await self._inner.list_jobs(tenant_id, self._bounds.narrowed(filter), before, limit)

    async def list_jobs_by_name(
        self, tenant_id: int, filter: JobFilter, after: NamePlace | None = None, limit: int = 50, *, down: bool = False
    ) -> JobsByName:
        raise closed()  # a page of names would end among those of others

    async def list_runs(
        self, tenant_id: int, filter: RunFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[RunItem]:
        if not self._bounds.agrees(filter) or not await self._has(tenant_id, filter.job_id):
            return Page(())
        page = await self._inner.list_runs(tenant_id, self._bounds.narrowed(filter), before, limit)
        return await self._bounds.still_in(tenant_id, page)

    async def list_dead_letters(
        self, tenant_id: int, filter: DeadFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[DeadLetter]:
        if not self._bounds.agrees(filter) or not await self._has(tenant_id, filter.job_id):
            return Page(())
        page = await self._inner.list_dead_letters(tenant_id, self._bounds.narrowed(filter), before, limit)
        return await self._bounds.still_in(tenant_id, page)

    async def job_status(self, tenant_id: int, job_id: UUID) -> JobReport:
        await self._bounds.job(tenant_id, job_id)
        return await self._inner.job_status(tenant_id, job_id)

    async def _has(self, tenant_id: int, job_id: UUID | None) -> bool:
        return job_id is None or bool(await self._bounds.jobs(tenant_id, [job_id]))


class ScopedReads(_Scoped[Reads]):
    async def job(self, tenant_id: int, job_id: UUID) -> Job:
        await self._bounds.job(tenant_id, job_id)
        return await self._inner.job(tenant_id, job_id)

    async def run(self, tenant_id: int, run_id: UUID) -> Run:
        await self._bounds.run(tenant_id, run_id)
        return await self._inner.run(tenant_id, run_id)


class ScopedWaiting(_Scoped[Waiting]):
    async def run_facts(self, tenant_id: int, run_id: UUID) -> RunFacts | None:
        await self._bounds.run(tenant_id, run_id)
        facts = await self._inner.run_facts(tenant_id, run_id)
        if facts is None:
            return None
        runs = await self._bounds.runs(tenant_id, facts.named_runs)
        return facts.within(runs, await self._bounds.jobs(tenant_id, facts.named_jobs))

    async def waiting_run_of_job(self, tenant_id: int, job_id: UUID) -> UUID | None:
        await self._bounds.job(tenant_id, job_id)
        return await self._inner.waiting_run_of_job(tenant_id, job_id)

    async def job_facts(self, tenant_id: int, job_id: UUID) -> JobFacts | None:
        await self._bounds.job(tenant_id, job_id)
        facts = await self._inner.job_facts(tenant_id, job_id)
        if facts is None:
            return None
        followed = set() if facts.follows is None else await self._bounds.jobs(tenant_id, [facts.follows])
        return facts.within(followed)


class ScopedControl(_Scoped[Control]):
    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job:
        await self._bounds.job(tenant_id, job_id)
        return await self._inner.cancel_job(tenant_id, job_id)

    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run:
        await self._bounds.run(tenant_id, run_id)
        return await self._inner.cancel_run(tenant_id, run_id)

    async def pause_job(self, tenant_id: int, job_id: UUID) -> Job:
        await self._bounds.job(tenant_id, job_id)
        return await self._inner.pause_job(tenant_id, job_id)

    async def resume_job(self, tenant_id: int, job_id: UUID) -> Job:
        await self._bounds.job(tenant_id, job_id)
        return await self._inner.resume_job(tenant_id, job_id)

    async def edit_job(self, tenant_id: int, job_id: UUID, changes: Changes, version: int | None = None) -> Job:
        await self._bounds.job(tenant_id, job_id)
        await self._bounds.check_changes(tenant_id, job_id, changes)
        return await self._inner.edit_job(tenant_id, job_id, changes, version)

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        await self._bounds.job(tenant_id, job_id)
        with self._bounds.keyed(request) as kept:
            return await self._inner.trigger_job(tenant_id, job_id, nonce, kept)

    async def backfill_job(
        self, tenant_id: int, job_id: UUID, backfill: Backfill, nonce: bytes, request: KeyedRequest | None = None
    ) -> int:
        await self._bounds.job(tenant_id, job_id)
        with self._bounds.keyed(request) as kept:
            return await self._inner.backfill_job(tenant_id, job_id, backfill, nonce, kept)


class Submitting(Protocol):
    """What stores jobs: see `engine/submit_batcher.py`."""

    async def submit(self, tenant_id: int, job: NewJob) -> Submitted: ...

    async def submit_all(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]: ...


class ScopedSubmitting:
    """Submissions of a caller with a scope."""

    def __init__(self, inner: Submitting, bounds: Bounds) -> None:
        self._inner = inner
        self._bounds = bounds

    async def submit(self, tenant_id: int, job: NewJob) -> Submitted:
        await self._bounds.check(tenant_id, [job])
        kept = self._bounds.private_job(job)
        with _no_count(), _own_keys((job.idempotency_key, kept.idempotency_key)):
            return await self._inner.submit(tenant_id, kept)

    async def submit_all(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        await self._bounds.check(tenant_id, jobs)
        kept = [self._bounds.private_job(job) for job in jobs]
        named = [(job.idempotency_key, each.idempotency_key) for job, each in zip(jobs, kept, strict=True)]
        with _no_count(), _own_keys(*named):
            return await self._inner.submit_all(tenant_id, kept)


@contextmanager
def _no_count() -> Iterator[None]:
    """A quota that is used up does not say how much the tenant has."""
    try:
        yield
    except QuotaExceeded as error:
        if not (error.field or "").startswith("limits."):
            raise
        raise QuotaExceeded("the tenant has reached a limit", field=error.field, remedy=error.remedy) from None


@contextmanager
def _own_keys(*keys: tuple[str | None, str | None]) -> Iterator[None]:
    """An error about an idempotency key names it as the caller gave it, not as the tenant's keys hold it."""
    try:
        yield
    except (KeyReused, KeyInFlight) as error:
        for given, kept in keys:
            if kept is not None and repr(kept) in error.message:
                message = error.message.replace(repr(kept), repr(given))
                raise type(error)(message, field=error.field, remedy=error.remedy) from None
        raise


class ScopedReplay(_Scoped[Replay]):
    async def delete_job(self, tenant_id: int, job_id: UUID) -> None:
        await self._bounds.job(tenant_id, job_id)
        await self._inner.delete_job(tenant_id, job_id)

    async def retry_run(self, tenant_id: int, run_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        await self._bounds.run(tenant_id, run_id)
        with self._bounds.keyed(request) as kept:
            return await self._inner.retry_run(tenant_id, run_id, nonce, kept)

    async def replay_dead_letters(
        self, tenant_id: int, filter: DeadFilter, pace: ReplayPace, nonce: bytes, request: KeyedRequest | None = None
    ) -> Replayed:
        await self._check(tenant_id, filter)
        with self._bounds.keyed(request) as kept:
            return await self._inner.replay_dead_letters(tenant_id, filter, pace, nonce, kept)

    async def discard_dead_letters(self, tenant_id: int, filter: DeadFilter, limit: int = 1000) -> int:
        await self._check(tenant_id, filter)
        return await self._inner.discard_dead_letters(tenant_id, filter, limit)

    async def _check(self, tenant_id: int, filter: DeadFilter) -> None:
        """A filter could match dead letters of other owners: these two need a run or a job in the scope."""
        if filter.job_id is not None:
            await self._bounds.job(tenant_id, filter.job_id)
        elif filter.run_id is not None:
            await self._bounds.run(tenant_id, filter.run_id)
        else:
            raise InvalidInput("is required from a caller with a scope", field="run_id", remedy="give run_id or job_id")


class ScopedFigures(_Scoped[Figures]):
    async def recent_runs(self, tenant_id: int, job_ids: Sequence[UUID], most: int) -> dict[UUID, list[RunEnd]]:
        inside = await self._bounds.jobs(tenant_id, job_ids)
        return await self._inner.recent_runs(tenant_id, [each for each in job_ids if each in inside], most)


class ScopedAnswers(_Scoped[Answers]):
    async def begin_request(self, tenant_id: int, request: KeyedRequest) -> bytes | None:
        with self._bounds.keyed(request) as kept:
            return await self._inner.begin_request(tenant_id, kept)

    async def end_request(self, tenant_id: int, request: KeyedRequest, answer: bytes | None) -> None:
        with self._bounds.keyed(request) as kept:
            await self._inner.end_request(tenant_id, kept, answer)

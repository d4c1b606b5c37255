"""How a page of a list is merged from several homes: the same for every store.

Each home is read newest first, up to a bound. A home that was not read to its end has a *horizon*: rows below it were
not read. A page shows the items above the highest horizon, so that none is missed; the next page continues there.

History has many rows of one job, and most of them may be of recurring jobs, which are in another home. `EndedWalk`
walks it job by job: each step walks over rows of an index, and looks up the few jobs that may be shown.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from msgspec.structs import replace

from duetime.ids import first_id_at
from duetime.model.job import JobState
from duetime.model.lists import JobFilter, JobStatus, Page, RunFilter
from duetime.model.run import RunState
from duetime.store.rules.job_rows import Fields

T = TypeVar("T")

BOUND = 1000
"""How many rows a page may read of one home when a filter is given."""
LIVE_BOUND = 1000
"""Up to so many live runs of a tenant are read and sorted, instead of being searched among all tenants' runs."""
SPARSE_BOUND = 3000
"""How many live runs of all tenants are searched for those of one."""
MOST_WALKED = 6_000
"""How many entries of an index a page may walk over in search of one-off jobs that are over."""
_ROWS_AT_ONCE = 3000
_LOOKED_UP_AT_ONCE = 250
_MOST_LOOKED_UP = 400
MOST_LABELLED = 100
MOST_OWNED = 500
"""In a scope with at most this many jobs, the runs of each job are read separately."""
MOST_WINDOWS = 20
"""How many windows of jobs a page may look at, in a scope with more jobs."""
MOST_SECONDS = 0.1
"""How long a page without items may go on, window by window: requests for empty pages cost more than the rows."""
CLOCKS_DIFFER = timedelta(minutes=15)
"""By how much the time in a run's id may be ahead of its due time: clocks, and the time that a submission takes. A
nonce, from which an id is made, is accepted for ten minutes."""
CLOCKS_BEHIND = timedelta(hours=1)
"""By how much the time in a run's id may be behind its due time. A generous margin costs little here."""
RECENT = timedelta(hours=2)
"""Ranges that end later are read from the newest id on: only ids from clocks that are ahead are above them."""


class Source(NamedTuple):
    """The items of one home by id, and how far down it was read (None: to its end)."""

    items: Sequence[tuple[UUID, Any]]
    horizon: UUID | None = None

    def is_enough(self, limit: int) -> bool:
        """Whether reading further cannot add items to the page."""
        return self.horizon is None or len(self.items) > limit


def make_page(sources: Iterable[Source], limit: int) -> Page[Any]:
    found: list[tuple[UUID, Any]] = []
    horizon: UUID | None = None
    for source in sources:
        found += source.items
        if source.horizon is not None and (horizon is None or source.horizon > horizon):
            horizon = source.horizon
    if horizon is not None:
        found = [item for item in found if item[0] >= horizon]
    found.sort(key=lambda item: item[0], reverse=True)
    if len(found) > limit:
        found = found[:limit]
        horizon = found[-1][0]
    return Page(tuple(item for _, item in found), horizon)


def floor_of(sources: Iterable[Source], limit: int) -> UUID | None:
    """From this id down, nothing can come onto the page any more: so much was found above it already, or another home
    was not read any further."""
    read = list(sources)
    floors = [UUID(int=source.horizon.int - 1) for source in read if source.horizon is not None and source.horizon.int]
    ids = sorted(ids_of(read), reverse=True)
    if len(ids) > limit:
        floors.append(ids[limit])
    return max(floors, default=None)


def ids_of(sources: Iterable[Source]) -> list[UUID]:
    return [item_id for source in sources for item_id, _ in source.items]


def still_wanted(ids: Iterable[UUID], sources: Iterable[Source], limit: int) -> list[UUID]:
    """Which of these may come onto the page from a home that was not read yet, newest first."""
    read = list(sources)
    floor = floor_of(read, limit)
    found = set(ids_of(read))
    return sorted((each for each in ids if each not in found and (floor is None or each > floor)), reverse=True)


def horizon_of(seen: int, bound: int, lowest: UUID | None, highest: UUID | None = None) -> UUID | None:
    """How far a home was read, given the ends of what was seen. Where rows share ids (`highest` is given), those of the
    lowest one may have been cut in two: it is left for the next page, unless it was all there is."""
    if seen < bound or lowest is None:
        return None
    if highest is None or lowest == highest:
        return lowest
    return UUID(int=lowest.int + 1)


def bounds(filter: JobFilter | RunFilter, limit: int, most: int) -> tuple[int, ...]:
    """How far to look, one after the other until it is enough: hardly further than the page, where nothing is filtered
    and most rows are on it; a little further; then as far as a page may. Each row may be a page of the disk."""
    steps = [limit + limit // 8 + 10] if filter in (JobFilter(), RunFilter()) else []
    return (*(step for step in (*steps, 4 * limit + 50) if step < most), most)


class RunSpan:
    """The ids between which the runs of a time range are. A run's id begins with its due time, as the process that made
    it saw the clock: the range is read somewhat further on both sides, and each row is checked."""

    def __init__(self, filter: RunFilter, now: datetime) -> None:
        self._until: UUID | None = None
        self._highest: UUID | None = None
        if filter.due_until is not None and filter.due_until < now - RECENT:
            self._until = first_id_at(filter.due_until)
            self._highest = first_id_at(filter.due_until + CLOCKS_DIFFER)
        self._lowest = None if filter.due_from is None else first_id_at(_moved(filter.due_from, -CLOCKS_BEHIND))

    def top(self, before: UUID) -> UUID:
        """Where to begin to read."""
        return before if self._highest is None else min(before, self._highest)

    def is_above(self, page: Page[Any]) -> bool:
        """Whether the page is empty only because reading has not reached the range yet."""
        return not page.items and page.next is not None and self._until is not None and page.next > self._until

    def ended(self, page: Page[T]) -> Page[T]:
        """The page, which is the last one if everything below it is before the range."""
        is_over = page.next is not None and self._lowest is not None and page.next <= self._lowest
        return replace(page, next=None) if is_over else page


def _moved(moment: datetime, by: timedelta) -> datetime:
    try:
        return moment + by
    except OverflowError:
        return moment


class HomeFilter(NamedTuple):
    """What a filter asks of jobs in their first home; None: of any kind."""

    states: list[int] | None
    recurring: bool | None


def of_first_home(filter: JobFilter) -> HomeFilter | None:
    """None: no job there can match."""
    match filter.status:
        case None:
            return HomeFilter(None, filter.recurring)
        case JobStatus.PENDING:
            wanted = HomeFilter([JobState.ACTIVE], False)
        case JobStatus.ACTIVE:
            wanted = HomeFilter([JobState.ACTIVE], True)
        case JobStatus.PAUSED | JobStatus.ENDED | JobStatus.CANCELLED:
            wanted = HomeFilter([JobState[filter.status.name]], None)
        case _:
            return None
    if filter.recurring is None or wanted.recurring == filter.recurring:
        return wanted
    return wanted._replace(recurring=filter.recurring) if wanted.recurring is None else None


def run_state_wanted(filter: JobFilter) -> RunState | None:
    """The state that a one-off's run must be in; None: any."""
    return None if filter.status is None else RunState.__members__.get(filter.status.name)


def wants_live(filter: JobFilter) -> bool:
    """Whether one-off jobs with a live run can match."""
    state = run_state_wanted(filter)
    return not filter.recurring and (filter.status is None or (state is not None and not state.is_end))


def wants_ended(filter: JobFilter) -> bool:
    """Whether one-off jobs that are over can match."""
    state = run_state_wanted(filter)
    return not filter.recurring and (filter.status is None or (state is not None and state.is_end))


def in_due_range(due_at: datetime, filter: JobFilter) -> bool:
    after_start = filter.due_from is None or due_at >= filter.due_from
    return after_start and (filter.due_until is None or due_at < filter.due_until)


class EndedWalk:
    """One-off jobs that are over, newest first. In each step a store walks over what ended, and says how many rows that
    were, of which jobs, and which of those are one-offs (`saw`); then it looks those up (`take`).

    `beside` are jobs of other homes that are on the page, as far as nothing newer is found here. `tasks` are the wanted
    ones; None: all.
    """

    def __init__(
        self,
        filter: JobFilter,
        before: UUID,
        limit: int,
        beside: Iterable[UUID] = (),
        tasks: Collection[str] | None = None,
    ) -> None:
        self.place = before
        """All ids from here up have been read."""
        self.found: list[Fields] = []
        self.done = False
        self.horizon: UUID | None = None
        self._filter = filter
        self._tasks = tasks
        self._state = run_state_wanted(filter)
        self._limit = limit
        self._beside = sorted(beside)
        self._rows_for_each = 1
        self._walked = 0
        self._looked_up = 0

    @property
    def state(self) -> int | None:
        """The end state to look for, if the rows can be found by it."""
        return None if self._state is None else int(self._state)

    @property
    def rows_at_once(self) -> int:
        """First a few, which are enough where most jobs are one-offs; then so many that as many one-offs as can be
        looked up are among them, if they lie as close as before."""
        few = _LOOKED_UP_AT_ONCE * self._rows_for_each + 10 if self._walked else 2 * self._limit + 10
        return min(_ROWS_AT_ONCE, few)

    def saw(self, rows: int, lowest: UUID | None, highest: UUID | None, one_offs: Sequence[UUID]) -> list[UUID]:
        """Which of the one-offs are to be looked up; they come newest first."""
        wanted = list(one_offs)
        self.done = rows < self.rows_at_once or lowest is None
        if lowest is not None and not self.done:
            # The rows of the lowest job may have been cut in two: it is seen again. Unless it was all there is: then it
            # is passed, and looked up, since the run by which a one-off is known may be among those not seen.
            self.place = lowest if lowest == highest else UUID(int=lowest.int + 1)
            wanted = [job_id for job_id in wanted if job_id >= self.place] if lowest != highest else [lowest]
        most = min(_LOOKED_UP_AT_ONCE, _MOST_LOOKED_UP - self._looked_up)
        if not self._walked:
            most = min(most, self._enough_of(wanted))
        if len(wanted) > most:
            del wanted[most:]
            self.place, self.done = wanted[-1], False
        self._rows_for_each = rows // max(1, len(one_offs)) + 1
        self._walked += rows
        self._looked_up += len(wanted)
        return wanted

    def take(self, rows: Sequence[Fields]) -> None:
        """How the last runs of the jobs ended that were to be looked up."""
        self.found += [row for row in rows if self._matches(row)]
        enough = len(self.found) + self._beside_from(self.place) > self._limit
        if not self.done and (enough or self._walked >= MOST_WALKED or self._looked_up >= _MOST_LOOKED_UP):
            self.done = True
            self.horizon = self.place

    def _enough_of(self, wanted: Sequence[UUID]) -> int:
        """How many of them fill the page, if all of them match."""
        filling = (count for count, each in enumerate(wanted, 1) if count + self._beside_from(each) > self._limit)
        return next(filling, len(wanted))

    def _beside_from(self, place: UUID) -> int:
        """How many jobs of other homes come before anything below this place."""
        return len(self._beside) - bisect_left(self._beside, place)

    def _matches(self, row: Fields) -> bool:
        wanted = self._filter
        return (
            not row["elsewhere"]
            and (self._state is None or row["end_state"] == self._state)
            and (self._tasks is None or row["task"] in self._tasks)
            and (wanted.queue is None or row["queue"] == wanted.queue)
            and in_due_range(row["due_at"], wanted)
        )

"""Limits: how many runs may run at once, and how many may start in a period; per tenant, queue and key.

What is decided here is decided while the rows of the limits are held, so that it is exact across all nodes. Nothing is
counted up and down: what runs is counted from the claims that live, so nothing can leak. A run whose key is full is
*parked* (it is in no lane until a slot of its key is free), one whose rate is used up is *put off* to its own moment;
neither stands in the way of others, and neither spends an attempt. A limit that another transaction holds is *busy*: no
run starts under it this time, and none is parked. Those who were put off are the line of their rate:
where some of them are gone, or the rate is higher by now, it is laid anew by the next claim that looks at it.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

import msgspec

from duetime.errors import InvalidInput
from duetime.model.failure import bounded
from duetime.model.job import Options
from duetime.model.name import check_key

MOST = 1_000_000
"""The highest number that a limit may say."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_RATE = re.compile(r"([0-9]{1,7})/([0-9]{0,5})(s|m|h|d)")
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_LATER = 1.02
"""Who waits for a rate comes a little later than it allows, since its windows are counted in steps of a hundredth."""


class LimitKind(IntEnum):
    """What a limit is about. The numbers are stored: never reuse one."""

    TENANT = 1
    QUEUE = 2
    KEY = 3
    """A `concurrency_key`."""
    RATE_KEY = 4
    TARGET = 5
    """A breaker: what it lets through while it is not closed."""


class Rate(msgspec.Struct, frozen=True):
    """At most `count` starts in any `period`."""

    count: int
    period: timedelta

    def __str__(self) -> str:
        seconds = int(self.period.total_seconds())
        unit, size = next((unit, size) for unit, size in reversed(_UNITS.items()) if seconds % size == 0)
        return f"{self.count}/{'' if seconds == size else seconds // size}{unit}"


def parse_rate(text: str, field: str = "rate") -> Rate:
    """`100/m`, `5/s`, `10/30s`."""
    found = _RATE.fullmatch(text)
    if found is not None:
        count, many, unit = int(found[1]), int(found[2] or 1), found[3]
        if 1 <= count <= MOST and 1 <= many * _UNITS[unit] <= 7 * 86400:
            return Rate(count, timedelta(seconds=many * _UNITS[unit]))
    raise InvalidInput(f"{text!r} is not a rate", field=field, remedy="such as 100/m, 5/s or 10/30s; at most 7 days")


class QueueLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a queue may do at most; None: no limit."""

    running: int | None = None
    rate: Rate | None = None


NO_QUEUE_LIMITS = QueueLimits()


def check_running(running: int, field: str = "running") -> int:
    if not 1 <= running <= MOST:
        raise InvalidInput(f"{running} cannot be a limit", field=field, remedy=f"1 to {MOST:,}; to stop it, pause it")
    return running


class Scope(NamedTuple):
    """What makes a limit the one it is."""

    tenant_id: int
    kind: LimitKind
    name: str


class Terms(NamedTuple):
    """What a job says of a key beside its name; None: as it is. What the run that came last says counts: one that was
    put off has said it when it came, and says nothing more, unless nobody knows anything of its key any more."""

    running: int | None = None
    rate: int | None = None
    period: timedelta | None = None


def problem_of(options: Options) -> str | None:
    """Why this release cannot keep to the limits that a run names; None: it can. A newer release may mean something by
    them."""
    try:
        for field in ("concurrency_key", "rate_key", "breaker_key"):
            key = getattr(options, field)
            if key is not None:
                check_key(key, field)
        if options.concurrency_key is not None:
            check_running(options.concurrency, "concurrency")
        if options.rate_key is not None and options.rate is not None:
            parse_rate(options.rate)
    except InvalidInput as error:
        return bounded(f"its limits cannot be read: {error}", 400)
    return None


def scopes_of_run(tenant_id: int, options: Options) -> dict[Scope, Terms]:
    """The limits that a run without a problem is under by its own keys."""
    found: dict[Scope, Terms] = {}
    if options.concurrency_key is not None:
        found[Scope(tenant_id, LimitKind.KEY, options.concurrency_key)] = Terms(running=options.concurrency)
    if options.rate_key is not None and options.rate is not None:
        rate = parse_rate(options.rate)
        found[Scope(tenant_id, LimitKind.RATE_KEY, options.rate_key)] = Terms(rate=rate.count, period=rate.period)
    return found


class Line(NamedTuple):
    """Those who wait for a rate by the clock."""

    is_due: bool = False
    """The moment of some has come."""
    first_at: datetime | None = None
    """The first moment that is yet to come."""
    last_at: datetime | None = None


NO_LINE = Line()


class Book:
    """A limit that is held: how much room there is, and what is given away of it."""

    __slots__ = (
        "counts_running",
        "free_at",
        "interval",
        "is_busy",
        "limit_id",
        "line",
        "next_at",
        "now",
        "period",
        "rate_room",
        "room",
    )

    def __init__(
        self,
        limit_id: int,
        now: datetime,
        *,
        running: int | None,
        live: int,
        rate: int | None,
        period: timedelta | None,
        started: int,
        free_at: datetime | None,
        line: Line = NO_LINE,
    ) -> None:
        self.limit_id = limit_id
        self.is_busy = False
        """Another transaction holds it: how it stands is not known."""
        self.now = now
        self.room = MOST if running is None else max(0, running - live)
        self.counts_running = running is not None
        self.period = None if rate is None else period
        self.rate_room = MOST if rate is None else max(0, rate - started)
        self.interval = period / rate * _LATER if period is not None and rate else timedelta(0)
        self.free_at = free_at or now
        self.lay(line)

    @classmethod
    def busy(cls) -> "Book":
        """One that another transaction holds."""
        book = cls(0, _LONG_AGO, running=0, live=0, rate=None, period=None, started=0, free_at=None)
        book.is_busy = True
        return book

    @property
    def left(self) -> int:
        return min(self.room, self.rate_room)

    def take(self, count: int) -> None:
        self.room -= count
        self.rate_room -= count

    @property
    def is_blank(self) -> bool:
        """Whether it says nothing: nobody has, or it was forgotten."""
        return not self.counts_running and self.period is None

    def lay(self, line: Line) -> None:
        """Note who waits."""
        self.line = line
        self.next_at = None if line.last_at is None else line.last_at + self.interval

    def gap(self) -> datetime | None:
        """When those who wait could begin to start, where that is earlier than the first of them will."""
        room_at = self.now if self.rate_room > 0 else self.free_at
        if self.line.first_at is None or self.line.first_at <= room_at + self.interval:
            return None
        return room_at + self.interval if self.line.is_due else room_at

    def has_a_line(self) -> bool:
        """Whether others wait for this rate by the clock."""
        return self.next_at is not None and self.next_at > self.now

    def put_off(self) -> datetime:
        """The moment for one more that waits for this rate."""
        at = max(self.next_at or self.free_at, self.free_at)
        self.next_at = at + self.interval
        return at


class Candidate(NamedTuple):
    """A ready run of a lane of runs with keys."""

    run_id: UUID
    put_off: bool
    """It has waited for its rate before: its moment is now."""
    scopes: tuple[Scope, ...]


class Admission(NamedTuple):
    chosen: list[UUID]
    parked: list[tuple[UUID, int]]
    """Runs and the limits that they wait for."""
    put_off: list[tuple[UUID, int, datetime]]
    """Runs, the limits whose rate they wait for, and their moments."""


def admit(
    candidates: Sequence[Candidate], books: Mapping[Scope, Book], lane_scopes: Sequence[Scope], most: int
) -> Admission:
    """Which of a lane's runs may start, in their order. What cannot start for its key leaves the lane; what cannot for
    its tenant or queue stays, and so does everything behind it. What is under a busy limit stays too: a run
    that is parked without holding its limit may miss the completion that makes room for it."""
    admission = Admission([], [], [])
    shared = [books[scope] for scope in lane_scopes if scope in books]
    for run in candidates:
        if len(admission.chosen) >= most or any(book.left <= 0 for book in shared):
            break
        own = [books[scope] for scope in run.scopes if scope in books]
        if any(book.is_busy for book in own):
            continue
        full = next((book for book in own if book.room <= 0), None)
        late = next((book for book in own if book.rate_room <= 0 or (book.has_a_line() and not run.put_off)), None)
        if full is not None:
            admission.parked.append((run.run_id, full.limit_id))
        elif late is not None:
            admission.put_off.append((run.run_id, late.limit_id, late.put_off()))
        else:
            for book in (*shared, *own):
                book.take(1)
            admission.chosen.append(run.run_id)
    return admission


def room_of(books: Mapping[Scope, Book], lane_scopes: Sequence[Scope], most: int) -> int:
    """How many of a lane may start at most."""
    return max(0, min([most, *(books[scope].left for scope in lane_scopes if scope in books)]))


def room_for(books: Mapping[Scope, Book], lane_scopes: Sequence[Scope], most: int) -> int:
    """How many of a lane may start whose runs have no keys; that many are given away."""
    count = room_of(books, lane_scopes, most)
    give_back(books, lane_scopes, -count)
    return count


def give_back(books: Mapping[Scope, Book], lane_scopes: Sequence[Scope], count: int) -> None:
    """A lane had fewer runs than were given to it."""
    for scope in lane_scopes:
        if scope in books:
            books[scope].take(-count)

"""Firing: due cursors make runs and move on, in one transaction."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from duetime.clock import monotonic
from duetime.errors import StoreUnavailable
from duetime.model.firing import DueJob, Fire, LiveRun, PassedBy, SetAside
from duetime.model.job import lane_of
from duetime.model.lane import LaneKey
from duetime.model.microseconds import maybe_stamp, stamp
from duetime.store.postgres.database import SQL, Connection, Row, affected, columns
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.marks import BEGINNING, Marks
from duetime.store.postgres.role import Context, Role
from duetime.store.postgres.suspects import SuspectsRole
from duetime.store.postgres.transaction import PostgresTransaction
from duetime.store.protocol.store import Hint, PlanFires, Scan
from duetime.store.rules.completions import REPLACED
from duetime.store.shared.control import stop_runs
from duetime.store.shared.pausing import keep_fences
from duetime.store.shared.suspects import put_on_trial

_ALL = 0
"""All cursors share one low-water mark; each lane has its own."""
_CHARGED = 2
"""The turn of a cursor from a backlog, for which its tenant's rate was charged."""
_LOOK_EVERY = 10
"""A full batch does not show what is left. After so many of them the next cursor is read, to move the mark."""


class FiringRole(Role):
    def __init__(self, context: Context, suspects: SuspectsRole) -> None:
        super().__init__(context)
        self._suspects = suspects

    _full_batches = 0

    @retry_on_deadlock
    async def fire_due(self, limit: int, plan: PlanFires, without: Collection[UUID] = ()) -> Scan:
        look = _Look(self.cursor_marks)
        try:
            return await self._fire_due(limit, plan, without, look)
        except StoreUnavailable:
            # After an outage the database may be another one, with cursors at earlier positions.
            self.cursor_marks.forget()
            raise

    async def _fire_due(self, limit: int, plan: PlanFires, without: Collection[UUID], look: "_Look") -> Scan:
        fires: list[Fire] = []
        aside: list[SetAside] = []
        passed: list[PassedBy] = []
        busy: set[UUID] = set()
        has_suspects = await self._suspects.has_suspects()
        next_in = None
        held_back = 0
        async with self.database.transaction() as connection:
            rows = await connection.fetch(SQL["due_cursors"], limit, look.since, list(without))
            look.has_looked()
            if rows:
                turns = await _admit(connection, rows)
                held_back = len(rows) - len(turns.taken)
                due = await _due(connection, turns.taken)
                for decided in plan(due, turns.now) if due else ():
                    if isinstance(decided, Fire):
                        fires.append(decided)
                    elif isinstance(decided, SetAside):
                        aside.append(decided)
                    else:
                        passed.append(decided)
                busy = await _replace(connection, fires, {job.job_id: job.live for job in due if job.live})
                fires = [fire for fire in fires if fire.job_id not in busy]
                lanes = await self.lane_book.ids_within(connection, {fire.lane for fire in fires})
                await _fire(connection, fires, lanes)
                await turns.refund(connection, fires)
                if has_suspects:
                    await put_on_trial(PostgresTransaction(connection), [fire.job_id for fire in fires])
            if aside:
                await connection.execute(
                    SQL["set_aside"], [item.job_id for item in aside], [item.problem for item in aside]
                )
            full = len(rows) - len(busy) >= limit
            self._full_batches += full
            if not full or look.at_all or self._full_batches % _LOOK_EVERY == 0:
                [(first_left, at, *snapshot)] = await connection.fetch(SQL["next_scan"], look.since, look.noted_at)
                look.saw(first_left, *snapshot)
                if first_left is not None and first_left <= at and (without or passed):
                    # A job that is passed by must not cause the next scan at once.
                    [(first_left, at, *_)] = await connection.fetch(SQL["next_scan"], at, at)
                next_in = None if full or first_left is None else first_left - at
        if not full and sum(row["turn"] > 0 for row in rows) >= max(1, limit // 2):
            next_in = timedelta(0)  # backlogs may have more cursors that can fire now
        look.advance()
        self.ready.announce(len(fires))
        if any(fire.replaces for fire in fires):
            self.hints.give(Hint.CANCEL)
        return Scan(len(fires), tuple(aside), len(rows) - len(busy), next_in, tuple(passed), held_back)

    async def unblock(self, limit: int) -> int:
        freed = await self._unblock(limit) + await self.parking.sweep(limit)
        self.ready.announce(freed)
        return freed

    async def _unblock(self, limit: int) -> int:
        if not await self._suspects.has_suspects():
            return await self.database.execute("unblock", limit)
        async with self.database.transaction() as connection:
            freed = affected(await connection.execute(SQL["unblock"], limit))
            await put_on_trial(PostgresTransaction(connection))
        return freed


class _Look:
    """One scan above the low-water mark, or sometimes a full scan, and what it proves about the mark.

    The proof is in `marks.py`: every statement that writes a cursor sets `scan_at` to the database's clock or later,
    so everything that is settled below t stays as it was read. The next cursor is read without locks, after the fires
    of this scan: a cursor that another node has locked appears at its old position. The mark moves after the commit.
    """

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self.at_all = marks.full_look_is_due
        if self.at_all:
            marks.full_look_took(0.0)  # only one of several concurrent scans is a full one
        self.since = BEGINNING if self.at_all else marks[_ALL]
        self._before = marks.settled
        self._began = monotonic()
        self._seen: tuple[datetime | None, datetime] | None = None

    @property
    def noted_at(self) -> datetime | None:
        return self._marks.noted_at

    def has_looked(self) -> None:
        if self.at_all:
            self._marks.full_look_took(monotonic() - self._began)

    def saw(self, first_left: datetime | None, now: datetime, oldest_running: int, unborn: int | None) -> None:
        self._seen = first_left, self._marks.observe(now, oldest_running, unborn, self._before)

    def advance(self) -> None:
        if self._seen is None:
            return
        first_left, settled = self._seen
        if self.at_all and first_left is not None:
            self._marks.lower({_ALL: first_left})
        if self._marks.settled >= settled:  # else the marks were reset in the meantime
            self._marks.advance(_ALL, first_left, settled)


class _Turns(NamedTuple):
    """The cursors in view that may fire now."""

    now: datetime
    taken: list[Row]
    charged: Counter[int]
    """How many fires were charged to each tenant's rate."""

    async def refund(self, connection: Connection, fires: Sequence[Fire]) -> None:
        """Give back charges for cursors that the plan left to the next scan or to other nodes."""
        unused = self.charged - Counter(fire.lane.tenant_id for fire in fires)
        if unused:
            await connection.execute(SQL["refund_fires"], list(unused), list(unused.values()))


async def _admit(connection: Connection, rows: Sequence[Row]) -> _Turns:
    """Take as many cursors as the tenants' rates allow, in order. The others go to their backlogs."""
    wanted = Counter(row["tenant_id"] for row in rows if not row["turn"])
    found = await connection.fetch(SQL["admit_fires"], list(wanted), list(wanted.values()))
    granted = {tenant_id: count for _, tenant_id, count in found if tenant_id is not None}
    charged = Counter({tenant_id: count for tenant_id, count in granted.items() if count})
    charged.update(row["tenant_id"] for row in rows if row["turn"] == _CHARGED)
    if not granted:
        return _Turns(found[0][0], list(rows), charged)
    taken, held = [], []
    for row in rows:
        left = None if row["turn"] else granted.get(row["tenant_id"])
        if left == 0:
            held.append((row["job_id"], row["tenant_id"]))
            continue
        if left is not None:
            granted[row["tenant_id"]] = left - 1
        taken.append(row)
    if held:
        await connection.execute(SQL["put_in_backlogs"], *columns(held, 2))
    return _Turns(found[0][0], taken, charged)


async def _due(connection: Connection, rows: Sequence[Row]) -> list[DueJob]:
    """The jobs in view. Jobs that are decided when they are due come with their live runs."""
    live: dict[UUID, list[LiveRun]] = defaultdict(list)
    exact = [(row["tenant_id"], row["job_id"]) for row in rows if row["exact"]]
    if exact:
        for job_id, run_id, running in await connection.fetch(SQL["live_runs_of"], *columns(exact, 2)):
            live[job_id].append(LiveRun(run_id, running))
    return [
        DueJob(
            row["job_id"],
            lane_of(row["tenant_id"], row["queue"], row["tier"], row["task"], row["options"]),
            row["schedule"],
            row["next_fire_at"],
            row["options"],
            row["made"],
            tuple(live.get(row["job_id"], ())),
            row["owed"],
        )
        for row in rows
    ]


async def _replace(
    connection: Connection, fires: Sequence[Fire], live: Mapping[UUID, tuple[LiveRun, ...]]
) -> set[UUID]:
    """Stop the runs that new ones replace. Returns the jobs that must wait because another transaction holds one of
    their runs: a scanner that has locked a thousand cursors must not wait."""
    jobs = {run.run_id: fire for fire in fires if fire.replaces for run in live[fire.job_id]}
    if not jobs:
        return set()
    held = {row[0] for row in await connection.fetch(SQL["hold_free_runs"], list(jobs))}
    rest = [run_id for run_id in jobs if run_id not in held]
    taken = await connection.fetch(SQL["which_live"], rest) if rest else []
    busy = {jobs[row[0]].job_id for row in taken}
    stopped: dict[int, list[UUID]] = defaultdict(list)
    for run_id in held:
        if jobs[run_id].job_id not in busy:
            stopped[jobs[run_id].lane.tenant_id].append(run_id)
    for tenant_id, run_ids in stopped.items():
        await stop_runs(PostgresTransaction(connection), tenant_id, run_ids, REPLACED)
    return busy


async def _fire(connection: Connection, fires: Sequence[Fire], lanes: Mapping[LaneKey, int]) -> None:
    runs, skips, cursors = [], [], []
    for fire in fires:
        lane = lanes[fire.lane]
        runs += [(fire.job_id, run.run_id, lane, stamp(run.due_at), run.blocked) for run in fire.runs]
        skips += [(fire.job_id, skip.run_id, lane, skip.due_at, skip.reason) for skip in fire.skips]
        moments = (maybe_stamp(fire.next_fire_at), maybe_stamp(fire.scan_at), maybe_stamp(fire.last_fire_at))
        cursors.append((fire.job_id, *moments, len(fire.runs), len(fire.skips), fire.recurring))
    if runs:
        *known, blocked = columns(runs, 5)
        await connection.execute(SQL["make_runs"], *known, None, _unless_all(blocked, usual=False), False)
        await keep_fences(PostgresTransaction(connection), fires)
    if skips:
        await connection.execute(SQL["skip_runs"], *columns(skips, 5))
    if cursors:
        *known, made, missed, recurring = columns(cursors, 7)
        rest = (_unless_all(made, usual=1), _unless_all(missed, usual=0), _unless_all(recurring, usual=True))
        await connection.execute(SQL["move_cursors"], *known, *rest)


def _unless_all(values: list[Any], *, usual: int) -> list[Any] | None:
    """A column, or None if all its values are the usual one: sending it would cost as much as all other columns."""
    return None if values.count(usual) == len(values) else values

"""Claiming under limits, exact across all nodes: a claim locks the rows of the limits while it chooses runs.

A claim waits for no lock. A limit that another transaction has locked counts as full for this claim: its runs stay in
their lanes, neither started nor parked. So a claim from lanes with and without limits always gets the runs of the
latter. The counts are read after the locks, in a separate statement, so that they include every commit before.

A run is parked only while its limit is locked. A completion ends its runs without that lock. A later step unparks runs,
skips locked limits and retries them (`parked_runs.py`), because their holders may have counted before the completion.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import asyncpg
from msgspec.structs import astuple

from duetime.clock import monotonic
from duetime.model.attempt import Claimed
from duetime.model.job import decode_options
from duetime.model.lane import LaneKey
from duetime.model.limits import Candidate, LimitKind, LimitState, RateQueue, Scope, Terms, admit, room_of
from duetime.model.worker import Seat
from duetime.store.postgres.database import SQL, Connection, Row, columns
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.role import Context, Role
from duetime.store.protocol.ready import Announcement
from duetime.store.rules.limit_scopes import (
    LEAVE_AT_LEAST,
    LEAVE_AT_MOST,
    MOVED_AT_ONCE,
    ROUNDS,
    Rules,
    Said,
    candidate,
    depth_of_peek,
    run_scopes,
    shared_scopes,
    why_left,
)
from duetime.store.shared.claim_rules import read_rules

_RULES_EVERY = 0.5
_ABOVE_KEYS = (LimitKind.TENANT, LimitKind.QUEUE)
"""The limits that are locked before the keys of a lane's runs are read."""
_BUSY_TRIES = 2
_BUSY_PAUSE = 0.004
"""About so many seconds: other claims lock a limit for a few milliseconds. A longer lock is not waited for."""


class _Twice(Exception):
    """A concurrent call makes the same claim."""


class _Found(NamedTuple):
    dealt: list[tuple[UUID, Claimed]]
    again: bool
    """Some runs had to leave their lane, so there may be more behind them."""
    busy: bool
    """Another transaction has locked some of the limits."""


class Limits(Role):
    """The limits that this process knows, and claims under them: several roles use one object."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._rules = Rules()
        self._rules_read_at = -1e9

    async def rules(self) -> Rules:
        self._rules = await read_rules(self)
        self._rules_read_at = monotonic()
        return self._rules

    @property
    def has_limits(self) -> bool:
        """Whether the end of a run may let another run start, as far as this process knows."""
        return bool(self._rules.scopes) or self.lane_book.has_keyed

    async def is_limited(self, lane_ids: Sequence[int]) -> bool:
        """Whether a claim from these lanes must lock limits."""
        if monotonic() - self._rules_read_at >= _RULES_EVERY:
            await self.rules()
        keys = self.lane_book.known
        return any(lane not in keys or self._rules.is_limited(keys[lane]) for lane in lane_ids)

    @retry_on_deadlock
    async def claim_limited(
        self, seats: Sequence[Seat], takes: Sequence[tuple[int, int]], announced: Sequence[Announcement] = ()
    ) -> list[tuple[UUID, Claimed]]:
        """`claim_many` under limits; only of announced runs, if there are any. If all runs at the head had to leave
        their lane, it looks again."""
        number, busy = 0, 0
        while number < ROUNDS and busy < _BUSY_TRIES:
            try:
                async with self.database.transaction() as connection:
                    found = await self._claim_once(connection, seats, takes, announced, number)
            except _Twice:
                return []
            if found.dealt:
                return found.dealt
            if found.again:
                number += 1
            elif found.busy:
                busy += 1
                await asyncio.sleep(random.uniform(0.5, 1.5) * _BUSY_PAUSE * busy)
            else:
                break
        return []

    async def _claim_once(
        self,
        connection: Connection,
        seats: Sequence[Seat],
        takes: Sequence[tuple[int, int]],
        announced: Sequence[Announcement],
        number: int,
    ) -> _Found:
        keys = await self.lane_book.keys_within(connection, [lane for lane, _ in takes])
        takes = [(lane, take) for lane, take in takes if lane in keys]  # a lane that is gone has no runs
        limited = {lane: take for lane, take in takes if announced or self._rules.is_limited(keys[lane])}
        shared = {
            lane: {scope: Terms() for scope in shared_scopes(keys[lane]) if self._rules.is_set(scope)}
            for lane in limited
        }
        above = _of_kinds(_ABOVE_KEYS, shared.values())
        states = await _hold(connection, above)
        room = {lane: room_of(states, shared_scopes(keys[lane]), take) for lane, take in limited.items()}
        open_lanes = {lane: count for lane, count in room.items() if count}
        heads = await self._peek(connection, open_lanes, announced, number)
        seen, said, unreadable = self._heard(heads, keys)
        targets = _of_kinds({LimitKind.TARGET}, (shared[lane] for lane in open_lanes))
        states |= await _hold(connection, targets | said.terms)
        states |= await _hold(connection, said.forgotten(states))
        states |= await _schedule_rate_queues(connection, states)
        if unreadable:
            await connection.execute(SQL["leave_runs"], *columns(unreadable, 2), LEAVE_AT_MOST, LEAVE_AT_LEAST)
        counted: list[tuple[int, int]] = []
        chosen: dict[UUID, Candidate] = {}
        parked: list[tuple[UUID, int]] = []
        put_off: list[tuple[UUID, int, datetime]] = []
        for lane, take in takes:
            if lane not in limited:
                counted.append((lane, take))
                continue
            admission = admit(seen[lane], states, shared_scopes(keys[lane]), take)
            starting = set(admission.chosen)
            chosen |= {run.run_id: run for run in seen[lane] if run.run_id in starting}
            parked += admission.parked
            put_off += admission.put_off
        await _set_aside(connection, parked, put_off)
        again = bool(parked or put_off or unreadable)
        busy = any(state.is_busy for state in states.values())
        if not counted and not chosen:
            return _Found([], again, busy)
        lanes = [lane for lane, _ in counted]
        asked = (lanes, [count for _, count in counted], [self.marks[lane] for lane in lanes], list(chosen))
        try:
            rows = await connection.fetch(SQL["claim_many"], *asked, *columns([astuple(seat) for seat in seats], 3))
        except asyncpg.UniqueViolationError:
            raise _Twice from None
        dealt = [(row[0], Claimed(*row[1:])) for row in rows]
        await _remember(connection, [run for _, run in dealt], keys, chosen, states)
        return _Found(dealt, again, busy)

    async def _peek(
        self, connection: Connection, room: Mapping[int, int], announced: Sequence[Announcement], number: int
    ) -> list[Row]:
        """The first runs of limited lanes that have room, or their announced runs."""
        if not room:
            return []
        if announced:
            found = await connection.fetch(SQL["announced_runs"], [run_id for run_id, _ in announced])
            wanted = frozenset(announced)
            return [row for row in found if row[0] in room and (row[1], row[0]) in wanted]
        marks = [self.marks[lane] for lane in room]
        return await connection.fetch(SQL["candidates"], list(room), marks, depth_of_peek(max(room.values()), number))

    def _heard(
        self, heads: Iterable[Row], keys: Mapping[int, LaneKey]
    ) -> tuple[dict[int, list[Candidate]], Said, list[tuple[UUID, str]]]:
        """These runs by lane, the terms of their keys, and the runs whose limits this node cannot read, with the
        reason."""
        seen: dict[int, list[Candidate]] = defaultdict(list)
        said = Said()
        unreadable: list[tuple[UUID, str]] = []
        for lane, run_id, put_off, body in heads:
            options = decode_options(body)
            if keys[lane].keyed and (message := why_left(run_id, options)):
                unreadable.append((run_id, message))
                continue
            scopes = run_scopes(keys[lane], options, self._rules) if keys[lane].keyed else {}
            said.hear(scopes, again=put_off)
            seen[lane].append(candidate(run_id, put_off, scopes))
        return seen, said, unreadable


def _of_kinds(kinds: Container[LimitKind], scopes: Iterable[Mapping[Scope, Terms]]) -> dict[Scope, Terms]:
    return {scope: terms for found in scopes for scope, terms in found.items() if scope.kind in kinds}


async def _hold(connection: Connection, wanted: Mapping[Scope, Terms]) -> dict[Scope, LimitState]:
    """Lock limits and read their counts. Limits that another transaction has locked are busy."""
    if not wanted:
        return {}
    rows = await connection.fetch(
        SQL["hold_limits"], *columns([(*scope, *words) for scope, words in wanted.items()], 6)
    )
    held = {row[0]: Scope(row[1], LimitKind(row[2]), row[3]) for row in rows}
    busy = {scope: LimitState.busy() for scope in wanted.keys() - set(held.values())}
    return busy | (await _count(connection, held) if held else {})


async def _schedule_rate_queues(connection: Connection, states: Mapping[Scope, LimitState]) -> dict[Scope, LimitState]:
    """Assign free moments of a rate to waiting runs; returns the new counts. It locks runs, so it must come after all
    locks on limits."""
    gaps = {scope: (state.limit_id, gap, state.interval) for scope, state in states.items() if (gap := state.gap())}
    if not gaps:
        return {}
    await connection.execute(SQL["schedule_rate_queues"], *columns(list(gaps.values()), 3), MOVED_AT_ONCE)
    return await _count(connection, {limit_id: scope for scope, (limit_id, _, _) in gaps.items()})


async def _count(connection: Connection, held: Mapping[int, Scope]) -> dict[Scope, LimitState]:
    return {
        held[row["id"]]: LimitState(
            row["id"],
            row["now"],
            running=row["running"],
            live=row["live"],
            rate=row["rate"],
            period=row["period"],
            started=row["started"],
            free_at=row["free_at"],
            queue=RateQueue(row["is_due"], row["first_at"], row["last_at"]),
        )
        for row in await connection.fetch(SQL["count_limits"], list(held))
    }


async def _set_aside(
    connection: Connection, parked: Sequence[tuple[UUID, int]], put_off: Sequence[tuple[UUID, int, datetime]]
) -> None:
    if parked:
        await connection.execute(SQL["park_runs"], *columns(parked, 2))
    if put_off:
        await connection.execute(SQL["put_off_runs"], *columns(put_off, 3))


async def _remember(
    connection: Connection,
    runs: Sequence[Claimed],
    keys: Mapping[int, LaneKey],
    chosen: Mapping[UUID, Candidate],
    states: Mapping[Scope, LimitState],
) -> None:
    """Store which runs hold which limits, and how many have started under each rate."""
    holds: list[tuple[int, UUID, int]] = []
    starts: dict[int, tuple[datetime, timedelta, int]] = {}
    for run in runs:
        own = chosen[run.run_id].scopes if run.run_id in chosen else ()
        for scope in (*shared_scopes(keys[run.lane_id]), *own):
            state = states.get(scope)
            if state is None:
                continue
            if state.counts_running:
                holds.append((state.limit_id, run.run_id, run.fence))
            if state.period is not None:
                count = starts.get(state.limit_id, (None, None, 0))[2]
                starts[state.limit_id] = (run.started_at, state.period, count + 1)
    if holds:
        await connection.execute(SQL["keep_holds"], *columns(holds, 3))
    if starts:
        rows = [(limit_id, *started) for limit_id, started in starts.items()]
        await connection.execute(SQL["keep_starts"], *columns(rows, 4))

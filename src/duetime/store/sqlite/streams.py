"""Carried runs on SQLite: the row of each id in `spent` decides, in the transaction of its end or landing."""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any
from uuid import UUID

from duetime.errors import LeaseLost
from duetime.ids import first_id_at, time_of
from duetime.model.carried import CarriedEnd, CarriedRun
from duetime.model.event import EventKind
from duetime.model.job import NewJob
from duetime.store.rules.carried_rows import Landing, Stored, as_carried, found_by
from duetime.store.rules.spent_days import SPENT_FROM, clocks_differ, forgettable
from duetime.store.shared.label_rows import put_labels
from duetime.store.shared.streams import StreamQueueRole
from duetime.store.sqlite.claiming import serves
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.event_log import append_events
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.transaction import SqliteTransaction, at_once
from duetime.store.sqlite.values import identity, moment, packed, places, unpacked

_PRUNED_AT_ONCE = 10_000


class StreamsRole(Role, StreamQueueRole):
    async def carry(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[CarriedRun]:
        def work(connection: Connection, now: int) -> None:
            first = _first_day(connection)
            for job in jobs:
                if time_of(job.id).date().isoformat() < first:
                    raise clocks_differ(time_of(job.id), moment(now))
            self.lane_book.ids(connection, {job.lane for job in jobs}, new_work=True)

        await self.database.run(work)
        return as_carried(jobs)

    async def _end(self, worker_id: UUID, ends: Sequence[CarriedEnd]) -> frozenset[UUID]:
        def work(connection: Connection, now: int) -> frozenset[UUID]:
            fresh = _spend(connection, [end.run for end in ends])
            accepted = [end for end in ends if end.run.run_id in fresh]
            lanes = self.lane_book.ids(connection, {end.run.lane for end in accepted})
            connection.many("end_carried", [_end_row(end, lanes[end.run.lane], now, worker_id) for end in accepted])
            runs = [end.run for end in accepted]
            _label(connection, now, runs)
            _append_carried_events(connection, now, runs, (EventKind.SUBMITTED, EventKind.STARTED, EventKind.SUCCEEDED))
            return frozenset(end.run.run_id for end in ends) - fresh

        return await self.database.run(work)

    async def _land(self, landing: Landing) -> Stored:
        runs, keys, starts = landing.runs, landing.lanes, landing.starts

        def work(connection: Connection, now: int) -> Stored:
            lanes = self.lane_book.ids(connection, {*keys, *keys.values()})
            holds: list[dict[str, Any] | None] = [None]
            for seat in landing.seats:
                this = {"worker_id": seat.worker_id.bytes, "claim_no": seat.claim_no, "now": now}
                try:
                    before = _hold(connection, this, lanes.values())
                except LeaseLost:
                    if not landing.is_shared:
                        raise
                    holds.append(None)
                    continue
                if before is not None and not landing.is_shared:
                    return Stored(now, _landed_before(connection, this, before, runs), lanes)
                holds.append(None if before is not None else this)
            fresh = _spend(connection, runs)
            stored = [run for run in runs if run.run_id in fresh]
            held: dict[int, list[CarriedRun]] = {}
            for run in stored:
                place = landing.seat_of.get(run.run_id, 0)
                holder = holds[place] or {"worker_id": None, "claim_no": None, "now": now}
                words = {"lane_id": lanes[keys[run.lane]], "home_lane": lanes[run.lane], "suspect": landing.is_suspect}
                connection.execute("land", {**_run_row(run), **holder, **words, "start": starts.get(run.run_id, now)})
                if holds[place] is not None:
                    held.setdefault(place, []).append(run)
            for place, of_seat in held.items():
                ends = [
                    min(max(starts.get(run.run_id, now), run.due), now) + run.timeout_ms * 1000
                    for run in of_seat
                    if run.timeout_ms is not None
                ]
                claim = {"deadline": min(ends, default=None), "run_ids": packed(run.run_id for run in of_seat)}
                connection.execute("keep_claim", {**(holds[place] or {}), **claim})
            _label(connection, now, stored)
            _append_carried_events(
                connection, now, stored, (EventKind.SUBMITTED, *((EventKind.RETRYING,) if landing.is_suspect else ()))
            )
            started = [run for of_seat in held.values() for run in of_seat]
            _append_carried_events(connection, now, started, (EventKind.STARTED,))
            return Stored(now, frozenset(run.run_id for run in started) if landing.is_shared else fresh, lanes)

        return await self.database.run(work)

    async def prune_spent(self, before: date) -> int:
        until = forgettable(before, self.database.clock.now())
        bound = first_id_at(until)

        def work(connection: Connection, _now: int) -> tuple[int, UUID | None]:
            connection.execute("forget_spent", {"name": SPENT_FROM, "day": until.date().isoformat()})
            first = connection.value("first_spent", {})
            part = {"before": bound.bytes, "batch": _PRUNED_AT_ONCE}
            return connection.execute("prune_spent", part), None if first is None else identity(first)

        removed, first = await self.database.run(work)
        days = 0 if first is None or first >= bound else (until.date() - time_of(first).date()).days
        while removed >= _PRUNED_AT_ONCE:
            removed, _ = await self.database.run(work)
        return days


def _first_day(connection: Connection) -> str:
    """The first day that was not forgotten."""
    day: str | None = connection.value("spent_from", {"name": SPENT_FROM})
    return day or ""


def _spend(connection: Connection, runs: Sequence[CarriedRun]) -> frozenset[UUID]:
    """The runs that had not been spent, and are now."""
    first = _first_day(connection)
    return frozenset(
        run.run_id
        for run in runs
        if time_of(run.run_id).date().isoformat() >= first and connection.rows("spend", {"id": run.run_id.bytes})
    )


def _hold(connection: Connection, this: dict[str, Any], lane_ids: Iterable[int]) -> bytes | None:
    """The runs of this claim, if it was made before. Raises `LeaseLost` for a worker that may not hold these runs."""
    worker = connection.row("alive", this)
    if worker is None:
        raise LeaseLost("the lease of the worker is over")
    if not all(serves(connection, worker, lane_id) for lane_id in set(lane_ids)):
        raise LeaseLost("the worker does not serve these runs")
    before: bytes | None = connection.value("find_claim", this)
    return before


def _landed_before(
    connection: Connection, this: dict[str, Any], before: bytes, runs: Sequence[CarriedRun]
) -> frozenset[UUID]:
    ids = packed(run.run_id for run in runs)
    if {run.run_id.bytes for run in runs}.isdisjoint(unpacked(before)):
        raise LeaseLost("the number of this claim was used before")
    rows = connection.rows("landed_before", {**this, "ids": ids, "places": places(ids)})
    return frozenset(identity(row[0]) for row in rows)


def _label(connection: Connection, now: int, runs: Sequence[CarriedRun]) -> None:
    found = found_by(runs)
    transaction = SqliteTransaction(connection, now)
    for place, kind, value in found.labels:
        run = runs[place - 1]
        at_once(put_labels(transaction, run.lane.tenant_id, [(kind, value, run.job_id)], ()))
    for place, payload_id in found.payloads:
        run = runs[place - 1]
        at_once(put_labels(transaction, run.lane.tenant_id, (), [(payload_id, run.job_id)]))


def _append_carried_events(
    connection: Connection, now: int, runs: Sequence[CarriedRun], kinds: Iterable[EventKind]
) -> None:
    """The events of carried runs come late, because nothing was stored before."""
    for kind in kinds:
        for tenant_id in sorted({run.lane.tenant_id for run in runs}):
            of_tenant = [run for run in runs if run.lane.tenant_id == tenant_id]
            ids = [run.job_id if kind.of_jobs else run.run_id for run in of_tenant]
            append_events(connection, now, kind, tenant_id, ids)


def _end_row(end: CarriedEnd, lane_id: int, now: int, worker_id: UUID) -> tuple[Any, ...]:
    run = end.run
    ids = (run.run_id.bytes, run.job_id.bytes, run.lane.tenant_id, lane_id)
    content = (run.timeout_ms, run.args, run.options, end.result, end.logs)
    return (*ids, run.due, end.started, now, worker_id.bytes, *content)


def _run_row(run: CarriedRun) -> dict[str, Any]:
    return {
        "id": run.run_id.bytes,
        "job_id": run.job_id.bytes,
        "tenant_id": run.lane.tenant_id,
        "due": run.due,
        "args": run.args,
        "options": run.options,
        "timeout_ms": run.timeout_ms,
    }

"""Claiming under limits. A file has one writer, so counts inside a transaction are exact."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from duetime.model.attempt import Claimed
from duetime.model.job import decode_options
from duetime.model.lane import LaneKey
from duetime.model.limits import Candidate, LimitState, RateQueue, Scope, Terms, admit, give_back, room_for, room_of
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
from duetime.store.sqlite.batches import claim_ready, claimed_runs
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.values import (
    duration,
    identity,
    maybe_moment,
    microseconds,
    moment,
    packed,
    places,
    stamp,
)


class Limited:
    """The claims of one transaction, from lanes under limits."""

    def __init__(self, connection: Connection, now: int, rules: Rules) -> None:
        self._connection = connection
        self._now = now
        self._rules = rules
        self._states: dict[Scope, LimitState] = {}

    def claim(
        self, this: Mapping[str, Any], lane_id: int, key: LaneKey, take: int, announced: Sequence[UUID] | None = None
    ) -> Sequence[Claimed]:
        shared = [scope for scope in shared_scopes(key) if self._rules.is_set(scope)]
        self._hold(dict.fromkeys(shared, Terms()))
        if not key.keyed and announced is None:
            count = room_for(self._states, shared, take)
            runs = claim_ready(self._connection, this, lane_id, count).read() if count else []
            give_back(self._states, shared, count - len(runs))
            self._remember(runs, shared, {})
            return runs
        for number in range(ROUNDS):
            room = room_of(self._states, shared, take)
            heads = self._heads(lane_id, room, number, announced) if room else []
            runs, again = self._claim_chosen(this, key, shared, take, heads)
            if runs or not again:
                return runs
        return []

    def _heads(self, lane_id: int, room: int, number: int, announced: Sequence[UUID] | None) -> list[tuple[Any, ...]]:
        """The first ready runs of a lane, or its announced runs."""
        this = {"lane_id": lane_id, "now": self._now}
        if announced is None:
            return self._connection.rows("candidates", {**this, "depth": depth_of_peek(room, number)})
        ids = packed(announced)
        return self._connection.rows("announced_runs", {**this, "ids": ids, "places": places(ids)})

    def _claim_chosen(
        self,
        this: Mapping[str, Any],
        key: LaneKey,
        shared: Sequence[Scope],
        take: int,
        heads: Sequence[tuple[Any, ...]],
    ) -> tuple[Sequence[Claimed], bool]:
        seen: list[Candidate] = []
        said, left = Said(), False
        for run_id, put_off, body in heads:
            options = decode_options(body)
            if key.keyed and (message := why_left(identity(run_id), options)):
                self._leave(run_id, message)
                left = True
                continue
            scopes = run_scopes(key, options, self._rules) if key.keyed else {}
            said.hear(scopes, again=bool(put_off))
            seen.append(candidate(identity(run_id), bool(put_off), scopes))
        self._hold(said.terms)
        self._hold(said.forgotten(self._states))
        chosen, parked, later = admit(seen, self._states, shared, take)
        for run_id, limit_id in parked:
            self._connection.execute("park_runs", {"run_id": run_id.bytes, "limit_id": limit_id})
        for run_id, limit_id, at in later:
            self._connection.execute("put_off_runs", {"run_id": run_id.bytes, "limit_id": limit_id, "at": stamp(at)})
        runs: list[Claimed] = []
        if chosen:
            ids = packed(chosen)
            runs = claimed_runs(self._connection.rows("claim_limited", {**this, "ids": ids, "places": places(ids)}))
            self._remember(runs, shared, {run.run_id: run for run in seen})
        return runs, bool(parked or later or left)

    def _leave(self, run_id: bytes, message: str) -> None:
        bounds = {"at_least": microseconds(LEAVE_AT_LEAST), "at_most": microseconds(LEAVE_AT_MOST)}
        self._connection.execute("leave_runs", {"run_id": run_id, "now": self._now, "message": message, **bounds})

    def _hold(self, scopes: Mapping[Scope, Terms]) -> None:
        for scope, said in scopes.items():
            if scope not in self._states or any(said):
                period = None if said.period is None else microseconds(said.period)
                words = {"running": said.running, "rate": said.rate, "period": period, "now": self._now}
                limit_id = self._connection.value("hold_limits", {**scope._asdict(), **words})
                state = self._states[scope] = self._count(limit_id)
                if (gap := state.gap()) is not None:
                    interval = microseconds(state.interval)
                    line = {
                        "id": limit_id,
                        "at": stamp(gap),
                        "interval": interval,
                        "now": self._now,
                        "limit": MOVED_AT_ONCE,
                    }
                    self._connection.execute("schedule_rate_queues", line)
                    state.set_queue(self._count(limit_id).queue)

    def _count(self, limit_id: int) -> LimitState:
        running, live, rate, period, started, free_at, is_due, first_at, last_at = self._connection.rows(
            "count_limits", {"id": limit_id, "now": self._now}
        )[0]
        return LimitState(
            limit_id,
            moment(self._now),
            running=running,
            live=live,
            rate=rate,
            period=None if period is None else duration(period),
            started=started,
            free_at=maybe_moment(free_at),
            queue=RateQueue(bool(is_due), maybe_moment(first_at), maybe_moment(last_at)),
        )

    def _remember(self, runs: Sequence[Claimed], shared: Sequence[Scope], chosen: Mapping[UUID, Candidate]) -> None:
        holds: list[tuple[int, bytes, int]] = []
        starts: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for run in runs:
            own = chosen[run.run_id].scopes if chosen else ()
            for state in (self._states[scope] for scope in (*shared, *own)):
                if state.counts_running:
                    holds.append((state.limit_id, run.run_id.bytes, run.fence))
                if state.period is not None:
                    starts[state.limit_id] = (microseconds(state.period), starts[state.limit_id][1] + 1)
        if holds:
            self._connection.many("keep_holds", holds)
        for limit_id, (period, count) in starts.items():
            step = max(1, period // 100)
            until = -(-(self._now + period) // step) * step
            self._connection.execute("keep_starts", {"id": limit_id, "until": until, "count": count})


def free_holds(connection: Connection, now: int, run_ids: Iterable[bytes]) -> None:
    """Release the limits of runs that ended or wait again, and unpark other runs."""
    if connection.value("has_holds", {}) is None:
        return
    ids = b"".join(run_ids)
    unpark(connection, now, {row[0] for row in connection.rows("free_holds", {"ids": ids, "places": places(ids)})})


def unpark(connection: Connection, now: int, limit_ids: Iterable[int]) -> int:
    return sum(connection.execute("unpark", {"id": limit_id, "now": now}) for limit_id in limit_ids)


def free_parked(connection: Connection, now: int, limit: int) -> int:
    """Unpark runs whose limit has room, although no completion has unparked them."""
    rows = connection.rows("parked_limits", {"now": now, "limit": limit})
    return unpark(connection, now, [row[0] for row in rows])

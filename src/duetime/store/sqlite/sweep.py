"""The sweep over the ids of runs, in their order."""

import logging
from collections import defaultdict

from duetime.store.protocol.service import JudgeLost
from duetime.store.rules.lost_runs import never_started
from duetime.store.rules.strays import REAPER, SETTLED, Pace, Stray
from duetime.store.sqlite.batches import claimed_runs
from duetime.store.sqlite.completing import apply
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import identity, microseconds, packed, places

log = logging.getLogger("duetime.reaper")

_LEAST_RUNS = 5_000


class SweepRole(Role):
    _after = b""
    _seen = 0
    _size = 0
    """How many runs there are, as of the last pass."""
    _pace: Pace | None = None

    def sweep_within(self, connection: Connection, now: int, judge: JudgeLost) -> int:
        """Go on with the walk: end the expired runs that it finds, and list the strays; returns how many of these."""
        if self._pace is None:
            self._pace = Pace(_LEAST_RUNS)
            self._size = connection.value("count_runs", {})
        take = self._pace.step(self._size)
        last, count = connection.rows("last_swept", {"after": self._after, "take": take})[0]
        strays = []
        if last is not None:
            stretch = {"after": self._after, "last": last, "settled": now - microseconds(SETTLED), "now": now}
            rows = connection.rows("strays", stretch)
            strays = [
                Stray(identity(run_id), fence, identity(worker_id), claim_no)
                for run_id, fence, worker_id, claim_no in rows
                if worker_id is not None
            ]
            _end_late(connection, now, b"".join(row[0] for row in rows if row[2] is None), judge)
        self._seen += count
        if count < take:
            self._after, self._size, self._seen = b"", self._seen, 0
        else:
            self._after = last
        if strays:
            _list(connection, now, strays)
            log.warning("found %d runs that were running without a claim: they are listed again", len(strays))
        return len(strays)


def _end_late(connection: Connection, now: int, ids: bytes, judge: JudgeLost) -> None:
    if not ids:
        return
    late = never_started(claimed_runs(connection.rows("late_runs", {"ids": ids, "places": places(ids), "now": now})))
    if late:
        ids = packed(run.run_id for run in late)
        taken = {"ids": ids, "places": places(ids), "worker_id": REAPER.bytes, "now": now}
        connection.execute("take_late", taken)
        apply(connection, now, REAPER, judge(late))


def _list(connection: Connection, now: int, strays: list[Stray]) -> None:
    claims: dict[tuple[bytes, int | None], list[Stray]] = defaultdict(list)
    apart: dict[bytes, list[Stray]] = defaultdict(list)
    for stray in strays:
        claims[stray.worker_id.bytes, stray.claim_no].append(stray)
    for (worker_id, claim_no), runs in claims.items():
        ids = packed(stray.run_id for stray in runs)
        this = {"worker_id": worker_id, "claim_no": claim_no, "ids": ids, "places": places(ids), "now": now}
        if claim_no is None:
            connection.execute("list_stray_handovers", this)
        elif not connection.execute("list_strays", this):
            apart[worker_id] += runs
    for worker_id, runs in apart.items():
        ids = packed(stray.run_id for stray in runs)
        set_apart(connection, now, worker_id, ids)


def set_apart(connection: Connection, now: int, worker_id: bytes, ids: bytes) -> None:
    """List runs of a worker in a claim of their own, which that worker does not hold."""
    this = {"worker_id": worker_id, "apart": -now, "ids": ids, "places": places(ids), "now": now}
    connection.execute("set_apart", this)

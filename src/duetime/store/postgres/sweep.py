"""The sweep over the pages of the table of runs: no index names what a claim changes, so none could find them."""

import logging
from collections.abc import Sequence
from uuid import UUID

from duetime.model.attempt import Claimed
from duetime.store.postgres.completing import apply
from duetime.store.postgres.database import SQL, Connection
from duetime.store.postgres.role import Role
from duetime.store.protocol.service import JudgeLost
from duetime.store.rules.lost_runs import never_started
from duetime.store.rules.strays import REAPER, SETTLED, Pace, Stray, by_worker, number_apart

log = logging.getLogger("duetime.reaper")

_LEAST_PAGES = 200
_AT_ONCE = 500


class SweepRole(Role):
    _page = 0
    _pace: Pace | None = None

    async def sweep(self, judge: JudgeLost) -> int:
        """Go on with the walk: end the expired runs that it finds, and list the strays; returns how many of these."""
        pages = await self.database.fetchval("pages_of_runs")
        if not pages:
            return 0
        if self._pace is None:
            self._pace = Pace(_LEAST_PAGES)
        first = self._page if self._page < pages else 0
        after = first + self._pace.step(pages)
        rows = await self.database.fetch("strays", first, after, SETTLED)
        self._page = after
        await self._end_late([row["run_id"] for row in rows if row["worker_id"] is None], judge)
        strays = {Stray(*row) for row in rows if row["worker_id"] is not None}
        if not strays:
            return 0
        async with self.database.transaction() as connection:
            found = await _list(connection, strays)
        if found:
            log.warning("found %d runs that were running without a claim: they are listed again", found)
        return found

    async def _end_late(self, run_ids: Sequence[UUID], judge: JudgeLost) -> None:
        for batch in (run_ids[start : start + _AT_ONCE] for start in range(0, len(run_ids), _AT_ONCE)):
            async with self.database.transaction() as connection:
                rows = await connection.fetch(SQL["late_runs"], batch)
                late = never_started(Claimed(*row) for row in rows)
                if not late:
                    continue
                await connection.execute(SQL["take_late"], [run.run_id for run in late], REAPER)
                applied = await apply(connection, REAPER, judge(late))
            await self.parking.free(applied.freed)


async def _list(connection: Connection, seen: set[Stray]) -> int:
    held = await connection.fetch(SQL["hold_strays"], [stray.run_id for stray in seen])
    strays = [Stray(*row) for row in held if Stray(*row) in seen]
    claimed = [stray for stray in strays if stray.claim_no is not None]
    if len(claimed) < len(strays):
        handed_over = [stray.run_id for stray in strays if stray.claim_no is None]
        await connection.execute(SQL["list_stray_handovers"], handed_over)
    if claimed:
        rows = await connection.fetch(SQL["list_strays"], [stray.run_id for stray in claimed])
        listed: set[UUID] = {run_id for row in rows for run_id in row[0]}
        number = number_apart(await connection.fetchval(SQL["clock"]))
        for worker_id, rest in by_worker(stray for stray in claimed if stray.run_id not in listed).items():
            await connection.execute(SQL["set_apart"], worker_id, [stray.run_id for stray in rest], number)
    return len(strays)

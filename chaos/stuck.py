"""What runs without a living worker, and since when: looked for in the tables themselves, whatever the product says.

A run that was handed over runs without its worker; what finds it then is its row in `handovers`."""

from collections.abc import Iterable
from typing import TypedDict

EVERY = 5.0
"""Seconds between two looks."""
LONGEST = 60.0
"""Seconds, beside one lease, after which the product must have found such a run when nothing disturbs it."""

POSTGRES = """
select r.id::text from duetime.runs r
where r.worker_id is not null and case when r.claim_no is null
    then not exists (select 1 from duetime.handovers h where h.run_id = r.id and h.fence = r.fence)
    else not exists (select 1 from duetime.workers w where w.id = r.worker_id and w.lease_until > duetime.clock())
        or not exists (
            select 1 from duetime.claims c
            where c.worker_id = r.worker_id and c.claim_no = r.claim_no and r.id = any(c.run_ids)) end
"""
SQLITE = """
select lower(hex(r.id)) from runs r
where r.worker_id is not null and case when r.claim_no is null
    then not exists (select 1 from handovers h where h.run_id = r.id and h.fence = r.fence)
    else not exists (select 1 from workers w where w.id = r.worker_id)
        or not exists (
            select 1 from claims c
            where c.worker_id = r.worker_id and c.claim_no = r.claim_no and instr(c.run_ids, r.id) > 0) end
"""
HELD = "select lower(hex(id)), worker_id from runs where worker_id is not null and claim_no is not null"
"""Running runs, and the workers that the file says they are with."""


class Sighting(TypedDict):
    run: str
    since: float
    until: float


class StuckWatch:
    def __init__(self) -> None:
        self._now: dict[str, Sighting] = {}
        self.sightings: list[Sighting] = []
        """Runs that no living worker had, from the first look that found them so to the last."""

    def look(self, t: float, runs: Iterable[str]) -> None:
        found = set(runs)
        for run in sorted(found):
            if run not in self._now:
                self._now[run] = Sighting(run=run, since=t, until=t)
                self.sightings.append(self._now[run])
            self._now[run]["until"] = t
        self._now = {run: sighting for run, sighting in self._now.items() if run in found}

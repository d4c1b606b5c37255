"""Strangers: runs that the worker is asked to stop and does not hold.

The store still has them under a claim that the worker names for the sake of other runs: what became of them was lost
with the end of a database that went back. The worker says so, after a lease of being asked: by then, what it was told
and what it had to say have long arrived.
"""

from collections.abc import Iterable
from uuid import UUID

from duetime.clock import monotonic


class Strangers:
    def __init__(self, after: float) -> None:
        self._after = after
        self._since: dict[UUID, float] = {}

    def asked(self, run_ids: Iterable[UUID]) -> None:
        """The worker was asked to stop these, none of which it holds; the others are asked for no more."""
        now = monotonic()
        self._since = {run_id: self._since.get(run_id, now) for run_id in run_ids}

    def for_certain(self) -> list[UUID]:
        """Those that have been asked for throughout a lease."""
        before = monotonic() - self._after
        return [run_id for run_id, since in self._since.items() if since <= before]

"""Runs that the store has under a claim of this worker and that this worker does not hold.

The worker's report about them was lost: the database was restored to an earlier state, or refuses to store the report.
Nothing else would notice: the worker is alive, and it names their claim because of other runs of that claim. So once
per lease it compares what it holds under older claims with what the store has there.

A report that is still on its way briefly makes its run unknown too. So the worker disowns only runs that are unknown
throughout a lease, after everything that it reported before that has been answered.
"""

from collections.abc import Iterable
from uuid import UUID


class UnknownRuns:
    """The unknown runs that one kind of answer has named, over time."""

    def __init__(self, after: float) -> None:
        self._after = after
        self._since: dict[UUID, float] = {}
        self.for_certain: list[UUID] = []
        """Runs that every answer has named throughout a lease."""

    def named(self, run_ids: Iterable[UUID], at: float, answered_until: float) -> None:
        """The answer to a request sent at `at` names exactly these runs. By then, everything reported until
        `answered_until` had been answered."""
        self._since = {run_id: self._since.get(run_id, at) for run_id in run_ids}
        before = min(at - self._after, answered_until)
        self.for_certain = [run_id for run_id, since in self._since.items() if since <= before]

    def forget(self) -> None:
        self._since, self.for_certain = {}, []

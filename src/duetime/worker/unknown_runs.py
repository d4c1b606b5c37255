"""UnknownRuns: runs that the store has under a claim of this worker, and that this worker does not hold.

What it reported of them was lost: the database went back behind it, or refuses to store it. Nothing else would notice.
The worker lives, and it names their claim for the sake of other runs of that claim. So once a lease it compares what it
holds under older claims with what the store has there.

A report that is on its way makes a stranger of its run too, for a moment. So the worker disowns only runs that are
strangers throughout a lease, after everything that it reported before that has been answered.
"""

from collections.abc import Iterable
from uuid import UUID


class UnknownRuns:
    """Those that one kind of answer has named, again and again."""

    def __init__(self, after: float) -> None:
        self._after = after
        self._since: dict[UUID, float] = {}
        self.for_certain: list[UUID] = []
        """Those that every answer has named throughout a lease."""

    def named(self, run_ids: Iterable[UUID], at: float, answered_until: float) -> None:
        """The answer to what was asked at this moment names these and no others; at that moment, everything had been
        answered that was reported until `answered_until`."""
        self._since = {run_id: self._since.get(run_id, at) for run_id in run_ids}
        before = min(at - self._after, answered_until)
        self.for_certain = [run_id for run_id, since in self._since.items() if since <= before]

    def forget(self) -> None:
        self._since, self.for_certain = {}, []

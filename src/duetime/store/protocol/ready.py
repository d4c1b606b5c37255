"""Between a run that is ready and a run that is claimed.

A run is claimable while it has a lane, no worker, and its `ready_at` has come. A test lists the statements that make
runs claimable (`tests/unit/test_ready.py`). After each of them the store announces it (`store/shared/ready.py`), and
listeners get `Hint.READY`. The lane was woken before the run was stored, so the next look finds the run.

An announcement has no authority. It may come late, twice or not at all, and the run that it names may have ended, moved
or gone to another worker since: only the claim decides.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from duetime.model.attempt import Claimed


class Announcement(NamedTuple):
    """A run that was seen to be ready, and the lane that it was in."""

    run_id: UUID
    lane_id: int


class Ready(Protocol):
    async def claim_announced(self, worker_id: UUID, claim_no: int, announced: Sequence[Announcement]) -> list[Claimed]:
        """Lease those of these runs that are ready, and still in the lanes that they were announced in.

        All that `claim` promises holds: numbers, leases, tenants, limits. A run that has moved to another lane is not
        leased, or a suspect would start without its trial.
        """

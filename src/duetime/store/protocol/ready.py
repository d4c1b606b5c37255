"""The seam between ready runs and claims.

A run is claimable while it has a lane, no worker, and its `ready_at` has come. A test lists the statements that make
runs claimable (`tests/unit/test_ready.py`). After each of them the store announces the runs
(`store/shared/ready.py`), and listeners get `Hint.READY`. The lane was woken before the run was stored, so the next
look finds the run.

An announcement has no authority. It may arrive late, twice or never, and its run may have ended, moved to another lane
or been claimed since: only the claim decides.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from duetime.model.attempt import Claimed


class Announcement(NamedTuple):
    """A run that became ready, and its lane at that time."""

    run_id: UUID
    lane_id: int


class Ready(Protocol):
    async def claim_announced(self, worker_id: UUID, claim_no: int, announced: Sequence[Announcement]) -> list[Claimed]:
        """Lease those of these runs that are ready and still in their announced lanes.

        All guarantees of `claim` hold: numbers, leases, tenants, limits. A run that has moved to another lane is not
        leased: a suspect must not start outside its trial lane.
        """

"""The store's part of the erasure of tenants (`model/erasure.py`).

Each step is a small transaction that also records what it has done, so a process that dies loses nothing, and any other
process continues. The holder of an erasure spares other nodes the work: two at once do no harm.
"""

from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from duetime.model.erasure import Erasure, ErasureStep


class Erasures(Protocol):
    async def plan_erasure(self, tenant_id: int, grace: timedelta, requested_by: str, key_id: UUID | None) -> Erasure:
        """Close a tenant now, and erase it after `grace`. Raises `NotFound`, and `Conflict` for the tenant `default`,
        and for one that is already scheduled for deletion."""

    async def withdraw_erasure(self, tenant_id: int) -> None:
        """Take back a deletion that has not begun: the tenant is in the state that it was in before. Raises `Conflict`
        if there is none, or it has begun."""

    async def erasures(
        self, tenant_id: int | None = None, before: int | None = None, limit: int = 100
    ) -> list[Erasure]:
        """Erasures that are planned, under way or done, those of the newest tenants first; or that of one tenant."""

    async def take_erasure(self, holder: UUID, period: timedelta, now: datetime) -> Erasure | None:
        """An erasure that is due and that no other node works on, held for `period`. Its grace is over when `now` says
        so, which is a time that can be trusted."""

    async def release_erasure(self, erasure: Erasure, holder: UUID, problem: str | None, period: timedelta) -> None:
        """Let another node go on with it after `period`."""

    async def begin_erasure(self, erasure: Erasure) -> Erasure:
        """From now on it cannot be taken back, and the tenant's audit entries can be removed."""

    async def stop_tenant(self, tenant_id: int, limit: int) -> int:
        """Ask for the cancellation of running runs; returns how many are running, up to `limit`."""

    async def move_erasure(self, erasure: Erasure, step: ErasureStep) -> Erasure:
        """Begin the next step."""

    async def erase_part(self, erasure: Erasure, batch: int, window: int) -> Erasure:
        """Remove up to `batch` rows, from the current table on, and look through up to `window` rows of a table that
        has no index by tenant. The rows of one run go together."""

    async def note_removed(self, erasure: Erasure, kind: str, count: int) -> Erasure:
        """Add what was removed elsewhere than in the database."""

    async def next_pass(self, erasure: Erasure) -> Erasure:
        """Begin with the first table again."""

    async def has_rows(self, tenant_id: int) -> bool:
        """Whether rows of the tenant wait for other processes: lanes that are awake."""

    async def archiving(self) -> frozenset[UUID]:
        """The claims under which days of history are being written to files."""

    async def end_tenant(self, erasure: Erasure) -> Erasure:
        """Remove the tenant itself, and add to the audit log that it was erased."""

    async def compact(self) -> bool:
        """Overwrite what removed rows have left in the database's file, where the store can do that. All other callers
        wait meanwhile. False: a reader is in the way; try again."""

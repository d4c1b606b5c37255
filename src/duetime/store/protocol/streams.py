"""The store's part of stream queues. Carried runs have no row until they end or land (`model/carried.py`)."""

from collections.abc import Sequence
from datetime import date
from typing import Protocol
from uuid import UUID

from duetime.model.carried import CarriedEnd, CarriedRun, Landed, StreamQueue, StreamSettings


class Streams(Protocol):
    async def stream_queues(self, tenant_id: int | None = None) -> list[StreamQueue]:
        """The stream queues of a tenant, or of all, with the generations that may still hold messages. Also queues that
        went back to the store within the last 20 minutes, without a current generation."""

    async def set_stream(self, tenant_id: int, queue: str, settings: StreamSettings | None) -> StreamQueue | None:
        """Send the plain runs of a queue through a stream; None: through the store again. A new address begins a new
        generation."""

    async def retire_stream(self, tenant_id: int, queue: str, generation: int) -> bool:
        """Forget a generation that is not current and was found empty for two leases."""

    async def end_carried(self, worker_id: UUID, ended: Sequence[CarriedEnd]) -> frozenset[UUID]:
        """Move these runs to history as SUCCEEDED, with their labels, events and tallies. Returns the runs that were
        refused, because they have ended or landed before. Each run id takes effect once, however often and wherever it
        is delivered, also on another day."""

    async def land(
        self, runs: Sequence[CarriedRun], how: Landed, worker_id: UUID | None = None, claim_no: int | None = None
    ) -> frozenset[UUID]:
        """Store these runs, except for those that have ended or landed before; returns the stored ones.

        With `Landed.RUNNING` they run under this worker's claim, which must be one of its next numbers. Raises
        `LeaseLost` when the worker's lease is over: then nothing is stored.
        """

    async def prune_spent(self, before: date) -> int:
        """Forget which runs acted, for the ids of days before this one. An id of a forgotten day is refused by
        `end_carried` and `land`. Returns how many days were forgotten."""

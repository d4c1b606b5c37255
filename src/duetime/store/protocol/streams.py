"""The store's part of stream queues. Carried runs have no row until they end or land (`model/carried.py`)."""

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple, Protocol
from uuid import UUID

from duetime.model.attempt import Claimed
from duetime.model.carried import CarriedEnd, CarriedRun, Landed, StreamQueue, StreamSettings, UnderClaim
from duetime.model.job import NewJob
from duetime.model.worker import Seat


class KnownQueues(NamedTuple):
    queues: list[StreamQueue]
    read_at: float
    """As `elapsed` says. The ages of the queues are of this moment."""


class Streams(Protocol):
    async def stream_queues(self, tenant_id: int | None = None) -> list[StreamQueue]:
        """The stream queues of a tenant, or of all, with the generations that may still hold messages. Also queues that
        went back to the store within the last 20 minutes, without a current generation."""

    async def known_queues(self, within: float) -> KnownQueues:
        """All stream queues, read at most so many seconds ago. All loops of a process share the reading. If the rules
        of claims were read meanwhile, and there was no stream queue, that counts as a reading too."""

    async def set_stream(self, tenant_id: int, queue: str, settings: StreamSettings | None) -> StreamQueue | None:
        """Send the plain runs of a queue through a stream; None: through the store again. A new address begins a new
        generation. Raises `InvalidInput` for a queue with limits, and `Conflict` while too many earlier generations may
        hold messages."""

    async def retire_stream(self, tenant_id: int, queue: str, generation: int) -> bool:
        """Forget a generation that is not current and was found empty for two leases. False, and nothing happens,
        within two minutes after the change: a process that has not heard of it may publish to the generation."""

    async def carry(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[CarriedRun]:
        """The runs of plain jobs, as messages carry them: with their arguments as the store would keep them. Their
        lanes exist from then on, within the tenant's limits, as for jobs that are stored. It asks the database only
        for lanes that this process has not used, and for the days whose ids act. Raises `StreamUnavailable` for ids
        that `end_carried` might refuse later, because clocks differ."""

    async def end_carried(self, worker_id: UUID, ended: Sequence[CarriedEnd]) -> frozenset[UUID]:
        """Move these runs to history as SUCCEEDED, with their labels, payloads and events. Returns the runs that were
        refused, because they have ended or landed before, or because the day in their id was forgotten. Each run id
        takes effect once, however often and wherever it is delivered, also on another day."""

    async def land(self, runs: Sequence[CarriedRun], how: Landed | UnderClaim) -> frozenset[UUID]:
        """Store these runs, except for those that have ended or landed before; returns the stored ones.

        With `UnderClaim` they run under a claim of a worker, which must be one of its next numbers. The same call again
        with the same number returns the runs that this claim holds, so an answer that was lost can be asked for. Raises
        `LeaseLost` when the worker's lease is over, or the number was used for other runs or released: then nothing is
        stored.
        """

    async def assign(self, seats: Sequence[Seat], runs: Sequence[tuple[CarriedRun, int]]) -> dict[UUID, list[Claimed]]:
        """Store these runs, except for those that have ended or landed before, each under the claim of the worker at
        its place among the seats, and return what each worker got. The runs of a worker whose lease is over, that does
        not serve all these lanes, or whose number was used before wait in their lanes. If the answer is lost,
        `claim_many` with the same seats finds the runs."""

    async def prune_spent(self, before: date) -> int:
        """Forget which runs acted, for the ids of days before this one that are two days past. An id of a forgotten day
        is refused by `end_carried` and `land`. Returns how many days were forgotten."""

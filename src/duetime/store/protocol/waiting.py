"""What a store tells about why runs and jobs wait."""

from typing import Protocol
from uuid import UUID

from duetime.model.waiting import JobFacts, RunFacts


class Waiting(Protocol):
    async def run_facts(self, tenant_id: int, run_id: UUID) -> RunFacts | None:
        """What decides when a live run starts, at one moment; None if the run is over, or does not exist. Costs a
        bounded effort: counts stop at a cap."""

    async def waiting_run_of_job(self, tenant_id: int, job_id: UUID) -> UUID | None:
        """The run of a job that starts next, of those that wait."""

    async def job_facts(self, tenant_id: int, job_id: UUID) -> JobFacts | None:
        """What decides when a job gets its next run; None if it is not stored any more."""

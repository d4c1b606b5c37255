"""The interface between an app and its jobs, in a database of this process or on a server."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from duetime.model.attempt import Run
from duetime.model.calendar import Calendar
from duetime.model.graph import Graph
from duetime.model.job import Job, Submitted
from duetime.sdk.order import Node, Order
from duetime.sdk.preview import Preview
from duetime.sdk.task import Call


class Look(NamedTuple):
    """The state of a job's newest run."""

    run: Run | None
    """The run, if it has ended."""
    status: str


class Jobs(Protocol):
    async def submit(self, orders: Sequence[Order]) -> list[Submitted]: ...

    async def submit_graph(self, nodes: Mapping[str, Node], name: str | None, idempotency_key: str | None) -> Graph: ...

    async def edit(
        self, job_id: UUID, changes: Mapping[str, Any], call: Call[Any] | None, version: int | None
    ) -> Job: ...

    async def look(self, job_id: UUID) -> Look:
        """Raises `Conflict` when the job has ended without a run."""
        ...

    async def job(self, job_id: UUID) -> Job: ...

    async def run(self, run_id: UUID) -> Run: ...

    async def runs(self, job_id: UUID, limit: int) -> list[Run]: ...

    async def pause(self, job_id: UUID) -> Job: ...

    async def resume(self, job_id: UUID) -> Job: ...

    async def cancel(self, job_id: UUID) -> Job: ...

    async def cancel_run(self, run_id: UUID) -> Run: ...

    async def trigger(self, job_id: UUID, idempotency_key: str | None) -> Run: ...

    async def backfill(
        self, job_id: UUID, start: datetime, end: datetime, limit: int, rate: float, idempotency_key: str | None
    ) -> int: ...

    async def retry(self, run_id: UUID, idempotency_key: str | None) -> Run: ...

    async def why(self, job_id: UUID) -> str | None:
        """Why it waits, in words, with what to do; None if it does not wait."""

    async def preview(self, schedule: str, count: int, options: Mapping[str, Any]) -> Preview: ...

    async def preview_job(self, job_id: UUID, count: int) -> Preview: ...

    async def set_calendar(self, name: str, dates: Sequence[date]) -> Calendar: ...

    async def calendar(self, name: str) -> Calendar: ...

    async def calendars(self) -> list[Calendar]: ...

    async def delete_calendar(self, name: str) -> None: ...

    async def graph(self, graph_id: UUID) -> Graph: ...

    async def cancel_graph(self, graph_id: UUID) -> Graph: ...

    async def rerun_graph(self, graph_id: UUID) -> Graph: ...

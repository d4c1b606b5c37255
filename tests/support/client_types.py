"""What mypy must know about the clients' methods, though each endpoint is written once: `make types` reads this."""

from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import assert_type

from duetime import AsyncClient, Client
from duetime.wire.jobs import JobPage, JobSummary, JobView
from duetime.wire.runs import RunView


def awaited(client: AsyncClient) -> None:
    assert_type(client.get_job("job_…"), Awaitable[JobView])
    assert_type(client.list_jobs(task="t"), Awaitable[JobPage])
    assert_type(client.jobs(task="t"), AsyncIterator[JobSummary])


def blocking(client: Client) -> None:
    assert_type(client.get_job("job_…"), JobView)
    assert_type(client.list_jobs(task="t"), JobPage)
    assert_type(client.jobs(task="t"), Iterator[JobSummary])
    assert_type(client.wait("job_…"), RunView)
    client.get_job(5)  # type: ignore[arg-type]
    client.list_jobs(unknown="x")  # type: ignore[call-arg]

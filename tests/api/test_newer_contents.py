"""A job in the database whose schedule this release cannot read: lists show it, and show the others."""

from pathlib import Path

import pytest

from duetime.store.sqlite import SqliteStore
from tests.support.served import Served, served

SCHEDULES = [
    b'{"type":"moon","phase":"full"}',
    b'{"type":"cron","line":"0 9 * * FULLMOON"}',
    b'{"type":"cron","line":"0 9 * * *","zone":"Mars/Base"}',
    b'{"type":"every","interval":60,"zone":"Mars/Base","days":1,"start_at":"2026-01-01T00:00:00Z"}',
]


async def write(api: Served, schedule: bytes) -> None:
    assert isinstance(api.store, SqliteStore)
    await api.store.database.run(
        lambda connection, _: connection.raw.execute("update jobs set schedule = ?", [schedule])
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_one_row_keeps_no_list_from_being_read(schedule: bytes, tmp_path: Path) -> None:
    async with served(f"sqlite:///{tmp_path / 'duetime.db'}") as api:
        strange = (await api.post("/v1/jobs", {"task": "work", "cron": "0 9 * * *"})).json["job_id"]
        await write(api, schedule)
        plain = (await api.post("/v1/jobs", {"task": "work", "cron": "0 9 * * *"})).json["job_id"]
        listed = await api.get("/v1/jobs")
        assert (listed.status, {job["job_id"] for job in listed.json["items"]}) == (200, {strange, plain})
        assert (await api.get(f"/v1/jobs/{strange}")).status == 200
        assert (await api.post(f"/v1/jobs/{strange}/cancel")).status == 200

"""The archive over HTTP: lists continue into it, and its own endpoints."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duetime.archive.names import date_of, day_of
from duetime.client import AsyncClient
from duetime.ids import show
from duetime.model.access import Role
from duetime.store.protocol.store import Store
from duetime.store.rules.seal_owners import ARGUMENTS, content_owner
from tests.support.old_history import add_ended
from tests.support.served import Served, served

pytest.importorskip("pyarrow")
DAY = day_of((datetime.now(UTC) - timedelta(days=40)).date())
RETENTION = timedelta(days=30)


@pytest.fixture
async def api(database_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    async with served(database_url, archive_url=f"file://{tmp_path}/archive", retention=RETENTION) as found:
        yield found


async def archive_all(api: Served) -> Any:
    """Archive what is old, and remove it from the database."""
    state = (await api.post("/v1/admin/archive/run")).json
    while state["running"]:
        await asyncio.sleep(0.05)
        state = (await api.get("/v1/admin/archive")).json
    assert state["problem"] is None
    archive = api.service.archive
    assert archive is not None
    assert await archive.release(await api.store.now(), RETENTION) == []
    await prune(api.store)
    return state


async def prune(store: Store) -> None:
    idle = 0
    while idle < 3:
        idle = 0 if await store.pruning.prune(RETENTION, RETENTION) else idle + 1


async def test_runs_continue_into_the_archive(api: Served) -> None:
    old = [show("run", each) for each in await add_ended(api.store, DAY, 25, args=b'{"n":1}', result=b'"done"')]
    new = [show("run", each) for each in await add_ended(api.store, DAY + 39, 5)]
    state = await archive_all(api)
    assert state["rows"] >= 25 and state["url"].endswith("/archive") and state["used"]
    seen, flags, cursor = [], [], ""
    while cursor is not None:
        page = (await api.get(f"/v1/runs?page_size=7{cursor and f'&cursor={cursor}'}")).json
        seen += [run["run_id"] for run in page["items"]]
        flags.append(page["archived"])
        assert [run["archived"] for run in page["items"]] == [run["run_id"] in old for run in page["items"]]
        cursor = page["next_cursor"]
    assert seen == new + old
    assert flags[0] and flags[-1]
    one = (await api.get(f"/v1/runs/{old[3]}")).json
    assert (one["archived"], one["args"], one["result"], len(one["attempts"])) == (True, {"n": 1}, "done", 1)
    until = (date_of(DAY) + timedelta(days=1)).isoformat()
    older = (await api.get(f"/v1/runs?end_time={until}T00:00:00Z&page_size=50")).json
    assert [run["run_id"] for run in older["items"]] == old and older["archived"]


async def test_days_are_listed_read_and_restored(api: Served) -> None:
    runs = [show("run", each) for each in await add_ended(api.store, DAY, 12)]
    await add_ended(api.store, DAY + 1, 3)
    await archive_all(api)
    day = date_of(DAY).isoformat()
    listed = (await api.get("/v1/archive?page_size=1")).json
    assert [each["day"] for each in listed["items"]] == [date_of(DAY + 1).isoformat()]
    (second,) = (await api.get(f"/v1/archive?page_size=1&cursor={listed['next_cursor']}")).json["items"]
    assert (second["day"], second["rows"], second["files"], second["tenant"]) == (day, 12, 1, "default")
    read = (await api.get(f"/v1/archive/{day}/runs?page_size=5")).json
    rest = (await api.get(f"/v1/archive/{day}/runs?page_size=50&cursor={read['next_cursor']}")).json
    assert [run["run_id"] for run in read["items"] + rest["items"]] == runs
    answer = await api.post(f"/v1/archive/{day}/restore", {"keep": "2d"})
    assert (answer.status, answer.json) == (200, {"rows": 12, "next_cursor": None})
    assert not (await api.get(f"/v1/runs/{runs[0]}")).json["archived"]


async def test_a_tenant_sees_only_its_own(api: Served) -> None:
    other = await api.tenant("other")
    viewer = await api.key(Role.VIEWER)
    stranger = await api.key(Role.ADMIN, other.id)
    runs = await add_ended(api.store, DAY, 4)
    await archive_all(api)
    day = date_of(DAY).isoformat()
    assert (await api.get("/v1/archive", key=stranger)).json["items"] == []
    assert (await api.get("/v1/runs", key=stranger)).json["items"] == []
    assert (await api.get(f"/v1/runs/{show('run', runs[0])}", key=stranger)).status == 404
    assert (await api.get(f"/v1/archive/{day}/runs", key=stranger)).status == 404
    assert (await api.post(f"/v1/archive/{day}/restore", key=stranger)).status == 404
    assert (await api.ask("DELETE", "/v1/archive", key=stranger)).json == {"files": 0}
    assert len((await api.get("/v1/runs", key=viewer)).json["items"]) == 4
    for method, path in (("POST", f"/v1/archive/{day}/restore"), ("DELETE", "/v1/archive")):
        assert (await api.ask(method, path, key=viewer)).status == 403
    for method, path in (("GET", "/v1/admin/archive"), ("POST", "/v1/admin/archive/run")):
        assert (await api.ask(method, path, key=stranger)).status == 403


async def test_a_tenant_is_erased(api: Served) -> None:
    await add_ended(api.store, DAY, 4)
    await archive_all(api)
    assert (await api.ask("DELETE", "/v1/archive")).json == {"files": 2}
    assert (await api.get("/v1/runs")).json["items"] == []


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/archive/yesterday/restore", {}, "day"),
        ("/v1/archive/2026-02-30/restore", {}, "day"),
        (f"/v1/archive/{date_of(DAY)}/restore", {"keep": "0s"}, "keep"),
        (f"/v1/archive/{date_of(DAY)}/restore", {"keep": "10y"}, "keep"),
        (f"/v1/archive/{date_of(DAY)}/restore", {"cursor": "x"}, "cursor"),
        (f"/v1/archive/{date_of(DAY)}/restore", {"cursor": "٣.١"}, "cursor"),
    ],
)
async def test_bad_requests_say_what_is_wrong(api: Served, path: str, body: dict[str, str], field: str) -> None:
    await add_ended(api.store, DAY, 1)
    answer = await api.post(path, body)
    assert (answer.status, answer.json["field"]) == (422, field), answer.body


async def test_a_server_without_an_archive_says_so(database_url: str) -> None:
    async with served(database_url) as api:
        assert (await api.get("/v1/archive")).json["items"] == []
        answer = await api.post("/v1/admin/archive/run")
        assert answer.status == 409 and "archive_url" in answer.json["remedy"]
        assert (await api.get("/v1/admin/archive")).json["url"] is None


async def test_content_stays_sealed_in_the_files(api: Served, tmp_path: Path) -> None:
    acme = await api.tenant("acme", encrypt_args=True)
    sealer = api.store.sealer
    assert sealer is not None
    await sealer.ready()
    sealed = sealer.seal(b'{"card":"4711-0815"}', belongs_to=content_owner(ARGUMENTS, acme.id))
    (run,) = await add_ended(api.store, DAY, 1, tenant_id=acme.id, args=sealed)
    await archive_all(api)
    assert not any(b"4711-0815" in file.read_bytes() for file in tmp_path.rglob("*.parquet"))
    key = await api.key(Role.VIEWER, acme.id)
    seen = (await api.get(f"/v1/runs/{show('run', run)}", key=key)).json
    assert (seen["archived"], seen["args"]) == (True, {"card": "4711-0815"})
    name = (await sealer.ready()).decode()
    assert await api.store.archives.keys_in_archive() == {name: 1}
    assert (await api.get("/v1/admin/encryption")).json["archived"] == {}


async def test_the_client_has_it_too(api: Served) -> None:
    await add_ended(api.store, DAY, 3)
    await archive_all(api)
    async with AsyncClient(api.url, api.root) as client:
        assert [day.rows async for day in client.archived_days()] == [3]
        assert len([run async for run in client.archived_runs(date_of(DAY))]) == 3
        assert (await client.restore_archive(date_of(DAY), keep="1d")).rows == 3
        (state,) = [day for day in (await client.get_archive()).days if day.rows]
        assert state.restored_until is not None
        assert (await client.erase_archive()).files == 2
        assert not (await client.stop_archive()).used

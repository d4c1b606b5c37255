"""What `duetime doctor` finds in a real database."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from duetime import App
from duetime.client.server_address import ADMIN_KEY, SERVER_PROCESS, SERVER_URL
from duetime.model.carried import StreamSettings
from duetime.model.job import DEFAULT_TENANT
from duetime.model.tenant import TenantChange
from duetime.node.diagnosis import Finding, diagnose
from duetime.settings import Settings
from duetime.store.address import store_for
from tests.support.file_owner import owned_by_another_process
from tests.support.served import served
from tests.support.working import quick_settings, working

_OTHER = "other:MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI="


async def findings(settings: Settings) -> dict[str, Finding]:
    return {each.check: each async for each in diagnose(settings)}


async def test_what_needs_work_is_found(migrated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.engine.watcher.GRACE", timedelta())
    settings = quick_settings(migrated)
    app = App(settings=settings)

    @app.task(name="lonely", queue="mail")
    async def lonely() -> None: ...

    await lonely.submit()
    store = await app.store()
    await store.streams.set_stream(DEFAULT_TENANT, "fast", StreamSettings("redis://127.0.0.1:1/0"))
    found = await findings(settings)
    await app.close()
    fine = {"database", "connections", "pooler", "schema", "clock", "encryption"}
    assert {check for check, each in found.items() if each.status == "ok"} == fine, found
    assert "fsync is off" in found["durability"].found or "full_page_writes" in found["durability"].found
    assert (found["vacuum"].status, found["vacuum"].remedy) == ("problem", "set autovacuum = on")
    assert found["database"].found.startswith("PostgreSQL ") and found["workers"].status == "warning"
    assert found["scheduler"].status == "warning" and "no server has ever been up" in found["scheduler"].found
    assert "duetime server" in str(found["scheduler"].remedy)
    assert found["tasks"].status == "problem" and "lonely are due in the queue mail" in found["tasks"].found
    assert "--queue mail" in str(found["tasks"].remedy)
    assert found["streams"].status == "problem" and "the queue fast at redis://127.0.0.1:1" in found["streams"].found
    assert "duetime queues set" in str(found["streams"].remedy)


async def test_the_task_that_was_probably_meant_is_named(migrated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.engine.watcher.GRACE", timedelta())
    settings = quick_settings(migrated)
    app = App(settings=settings)

    @app.task(name="shop.charge")
    async def charge() -> None: ...

    wrong = App(settings=settings)

    @wrong.task(name="shop.chrage")
    async def chrage() -> None: ...

    await chrage.submit()
    await wrong.close()
    async with working(app):
        await (await charge.submit()).result("30s")  # the worker has registered
        found = (await findings(settings))["tasks"]
    await app.close()
    assert (found.status, str(found.remedy).startswith("did you mean 'shop.charge'? ")) == ("problem", True)
    assert str(found.remedy).endswith("duetime worker MODULE:APP --queue default")


async def test_beside_a_server_on_a_file_the_recommended_worker_can_start(tmp_path: Path) -> None:
    async with served(f"sqlite:///{tmp_path / 'other.db'}") as api:
        assert (await api.post("/v1/jobs", {"task": "lonely"})).status == 201
        settings = Settings(data_dir=tmp_path)
        assert settings.sqlite_file is not None
        with owned_by_another_process(settings.sqlite_file, tmp_path) as process:
            (tmp_path / SERVER_PROCESS).write_text(str(process))
            (tmp_path / SERVER_URL).write_text(api.url)
            (tmp_path / ADMIN_KEY).write_text(api.root)
            found = (await findings(settings))["tasks"]
        assert (found.status, "duetime up MODULE:APP" in str(found.remedy)) == ("problem", True)
        assert f"duetime worker MODULE:APP --url {api.url}, with a worker key in DUETIME_KEY" in str(found.remedy)
        remote = msgspec.structs.replace(settings, url=api.url, key=api.root)
        found = await findings(remote)
        assert "duetime up" not in str(found["tasks"].remedy)
        assert found.keys() == {"server", "tasks"}, "the database is the server's"
        named = msgspec.structs.replace(remote, database_url=f"sqlite:///{tmp_path / 'new.db'}")
        assert (await findings(named)).keys() == {"database", "schema", "disk", "server", "tasks"}


async def test_the_server_of_a_file_that_is_given_by_its_url_is_asked(tmp_path: Path) -> None:
    async with served(f"sqlite:///{tmp_path / 'other.db'}") as api:
        server, file = tmp_path / "server", tmp_path / "jobs.db"
        server.mkdir()
        asked = Settings(data_dir=tmp_path / "nothing", database_url=f"sqlite:///{file}")
        assert "server" not in await findings(asked)
        with owned_by_another_process(file, server) as process:
            (server / SERVER_PROCESS).write_text(str(process))
            (server / SERVER_URL).write_text(api.url)
            (server / ADMIN_KEY).write_text(api.root)
            assert (await findings(asked))["server"].status == "ok"


async def test_the_size_of_a_file_includes_its_write_ahead_log(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    assert settings.sqlite_file is not None
    with closing(sqlite3.connect(settings.sqlite_file)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table things (content blob)")
        connection.execute("insert into things values (zeroblob(2000000))")
        connection.commit()
        found = (await findings(settings))["database"]
    assert ", 2.0 MB; " in found.found or ", 2.1 MB; " in found.found, found


async def test_a_key_that_is_missing_here(migrated: str) -> None:
    settings = quick_settings(migrated)
    store = store_for(settings)
    await store.open()
    assert store.sealer is not None
    sealed = store.sealer.seal(b"s" * 32, belongs_to="a test")
    await store.secrets.add_signing_secret(DEFAULT_TENANT, uuid4(), sealed, overlap=None)
    await store.close()
    assert (await findings(settings))["encryption"].status == "ok"
    other = await findings(msgspec.structs.replace(settings, encryption_keys=(_OTHER,)))
    assert (other["encryption"].status, "first (signing secrets)" in other["encryption"].found) == ("problem", True)
    none = (await findings(msgspec.structs.replace(settings, encryption_keys=())))["encryption"]
    assert (none.status, "duetime encryption new-key" in str(none.remedy)) == ("warning", True)


@pytest.mark.parametrize("table", ["secrets", "payloads", "jobs"])
@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
async def test_all_that_is_encrypted_is_looked_at(migrated: str, tmp_path: Path, kind: str, table: str) -> None:
    first = quick_settings(migrated)
    if kind == "sqlite":
        first = Settings(data_dir=tmp_path, encryption_keys=first.encryption_keys)
    store = store_for(first)
    await store.open()
    await store.migrate()
    assert store.sealer is not None
    if table == "secrets":
        await store.tenants.secret("cursors", b"s" * 32)
    elif table == "payloads":
        sealed = store.sealer.seal(b"{}", belongs_to="a test")
        await store.payloads.put_payload(DEFAULT_TENANT, uuid4(), sealed)
    else:
        await store.tenants.update_tenant(DEFAULT_TENANT, TenantChange(encrypt_args=True))
    await store.close()
    if table == "jobs":
        async with App(settings=first) as app:
            await app.task(name="later")(later).options(run_in="1d").submit(1)
    assert (await findings(first))["encryption"].status == "ok"
    found = (await findings(msgspec.structs.replace(first, encryption_keys=(_OTHER,))))["encryption"]
    assert (found.status, f"first ({table})" in found.found) == ("problem", True), found


async def later(number: int) -> None: ...


async def test_a_restored_copy_needs_no_processes(migrated: str, tmp_path: Path) -> None:
    for settings in (quick_settings(migrated), Settings(data_dir=tmp_path)):
        found = {each.check async for each in diagnose(settings, restored=True)}
        assert not found & {"scheduler", "workers", "tasks"}, found
        assert {"database", "schema"} <= found


async def test_settings_of_the_server_that_lose_data(migrated: str) -> None:
    options = "options=-c%20synchronous_commit%3Doff%20-c%20statement_timeout%3D5s"
    options += "%20-c%20default_transaction_isolation%3Dserializable"
    risky = f"{migrated}{'&' if '?' in migrated else '?'}{options}"
    found = await findings(quick_settings(risky))
    assert (found["durability"].status, "synchronous_commit is off" in found["durability"].found) == ("warning", True)
    assert found["timeouts"].status == "warning"
    assert (found["isolation"].status, "read committed" in str(found["isolation"].remedy)) == ("problem", True)

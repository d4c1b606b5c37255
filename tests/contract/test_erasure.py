"""A tenant that is deleted leaves nothing behind: every table, file and archive is searched for what it has written."""

from datetime import timedelta
from pathlib import Path

import pytest

from duetime.archive.archive import Archive
from duetime.archive.names import day_of
from duetime.archive.storage import FolderStorage
from duetime.engine.eraser import Eraser
from duetime.errors import Conflict, NotFound
from duetime.ids import new_id
from duetime.model.audit import AuditEntry
from duetime.model.erasure import ErasureStep, name_hash
from duetime.model.identity import Identity
from duetime.model.job import DEFAULT_TENANT
from duetime.model.session import EVERYWHERE, NewSession, new_token, token_hash
from duetime.model.tenant import NO_LIMITS, NewTenant, Tenant, TenantState
from duetime.store.protocol.store import Store
from duetime.store.rules.tenant_tables import OTHER_TABLES, TENANT_TABLES
from duetime.store.sqlite import SqliteStore
from tests.contract.hands import hand, job, submit
from tests.contract.worlds import START, PostgresWorld, Time, World
from tests.support.dumps import dumped
from tests.support.old_history import add_ended
from tests.support.planting import plant

MARKER, OTHERS = "Zq7marker7qZ", "Zq8others8qZ"
DAY = timedelta(days=1)
NOW = timedelta(0)


@pytest.fixture
async def tenant(store: Store) -> Tenant:
    return await store.tenants.create_tenant(NewTenant(f"{MARKER}-inc", limits=NO_LIMITS))


@pytest.fixture
def archive(store: Store, tmp_path: Path) -> Archive:
    pytest.importorskip("pyarrow")
    return Archive(store, FolderStorage(tmp_path / "archive"), part_rows=50)


def eraser(store: Store, archive: Archive | None = None) -> Eraser:
    return Eraser(store, archive, batch=50, window=2, interval=timedelta(seconds=1))


async def erase(store: Store, time: Time, tenant_id: int, archive: Archive | None = None) -> None:
    """Let an eraser work until the tenant is gone. A new one after each round: a process may die at any time."""
    for _ in range(30):
        await eraser(store, archive).tick()
        (erasure,) = await store.erasures.erasures(tenant_id)
        if erasure.step is ErasureStep.DONE:
            return
        time.advance(seconds=35)
        await store.claims.tidy_lanes()
    raise AssertionError(f"the erasure does not end: {erasure}")


def places(world: World, marker: str) -> set[str]:
    """The columns that hold a marker."""
    url = world.dsn if isinstance(world, PostgresWorld) else f"sqlite:///{_path(world)}"
    wanted = marker.encode()
    return {f"{table}.{column}" for table, column, value in dumped(url) if wanted in value}


def _path(world: World) -> Path:
    assert isinstance(world.store, SqliteStore)
    path = world.store.database.path
    assert path is not None
    return path


async def test_every_table_says_what_becomes_of_a_tenants_rows(world: World, store: Store) -> None:
    tables = await _tables(world)
    known = {each.name for each in TENANT_TABLES}
    assert not known & OTHER_TABLES.keys()
    assert tables - known - OTHER_TABLES.keys() == set(), "decide what erasure and export do with these tables"
    only_one = {"term_grams", "function_files", "event_places", "lane_requests", "usage_days", "usage_place"}
    assert (known | OTHER_TABLES.keys()) - tables <= only_one


async def _tables(world: World) -> set[str]:
    if isinstance(world, PostgresWorld):
        rows = world.database.session().execute(
            "select relname from pg_class where relnamespace = 'duetime'::regnamespace and relkind in ('r', 'p')"
            " and not relispartition"
        )
        return {row[0] for row in rows.fetchall()}
    assert isinstance(world.store, SqliteStore)
    statement = "select name from sqlite_master where type = 'table' and not name glob 'sqlite_*'"
    statement += " and not name glob 'term_grams_*'"
    rows = await world.store.database.run(lambda connection, _: connection.raw.execute(statement).fetchall())
    return {row[0] for row in rows}


async def test_nothing_that_a_tenant_has_written_is_left(
    world: World, store: Store, time: Time, tenant: Tenant, archive: Archive, tmp_path: Path
) -> None:
    others = await store.tenants.create_tenant(NewTenant("others", limits=NO_LIMITS))
    day = day_of(START.date()) - 3
    for owner, marker in ((tenant, MARKER), (others, OTHERS)):
        await add_ended(store, day, 120, tenant_id=owner.id, task=f"{marker}.task", args=f'"{marker}"'.encode())
    assert await archive.write_day(day, await store.now())
    parquet = pytest.importorskip("pyarrow.parquet")
    files = sorted((tmp_path / "archive").rglob("*.parquet"))
    assert any(MARKER in str(parquet.read_table(each).to_pylist()) for each in files)
    planted = await plant(world, tenant.id, MARKER)
    kept = await plant(world, others.id, OTHERS)
    before = places(world, MARKER)
    assert before >= planted
    assert {"jobs.args", "history.result", "audit.detail", "labels.value", "workers.name"} <= before
    assert "tenants.name" in before
    left = places(world, OTHERS)
    files = sorted((tmp_path / "archive").rglob(f"tenant={others.id}/**/*.parquet"))
    assert files

    await store.erasures.plan_erasure(tenant.id, NOW, "operator", None)
    await erase(store, time, tenant.id, archive)

    assert places(world, MARKER) == set()
    assert places(world, OTHERS) == left >= kept
    assert sorted((tmp_path / "archive").rglob("*.parquet")) == files
    if isinstance(world.store, SqliteStore):
        for each in _path(world).parent.glob(f"{_path(world).name}*"):
            assert MARKER.encode() not in each.read_bytes(), each
    for each in (tmp_path / "archive").rglob("*"):
        assert each.is_dir() or MARKER.encode() not in each.read_bytes(), each
    assert not any(MARKER in str(parquet.read_table(each).to_pylist()) for each in files)
    (erasure,) = await store.erasures.erasures()
    assert erasure.name_hash == name_hash(tenant.id, tenant.name)
    # Every table had a row, and the report counts them all.
    assert {each.name for each in TENANT_TABLES} <= erasure.removed.keys()
    assert erasure.removed["history"] == 121
    assert erasure.removed["archive files"] >= 2
    (entry,) = [each.entry for each in await store.audit.audit(None) if each.entry.action == "tenants.erased"]
    assert (entry.object, entry.actor, entry.tenant_id) == (f"tenant {tenant.id}", "operator", None)


async def test_the_sessions_of_people_with_a_role_in_it_end(store: Store, time: Time, tenant: Tenant) -> None:
    for tenant_ids in ((DEFAULT_TENANT, tenant.id), (DEFAULT_TENANT,)):
        person = Identity("acme", "https://id.example.com", f"{len(tenant_ids)}")
        new = NewSession(new_id(), person.id, token_hash(new_token()), "", "", person, tenant_ids)
        assert await store.sessions.begin_session(new, DAY, DAY) is not None
    await store.erasures.plan_erasure(tenant.id, NOW, "operator", None)
    await erase(store, time, tenant.id)
    assert [each.identity for each in await store.sessions.sessions(EVERYWHERE)] == [person]


async def test_a_number_is_never_used_again(store: Store, time: Time, tenant: Tenant) -> None:
    await store.erasures.plan_erasure(tenant.id, NOW, "operator", None)
    await erase(store, time, tenant.id)
    with pytest.raises(NotFound):
        await store.tenants.tenant(tenant.name)
    again = await store.tenants.create_tenant(NewTenant(tenant.name))
    assert again.id > tenant.id
    assert await store.audit.audit(again.id) == []


async def test_a_running_run_is_cancelled_first_and_gets_time_to_end(store: Store, time: Time, tenant: Tenant) -> None:
    worker = await hand(store, timedelta(days=1))
    await submit(store, *(job(tenant_id=tenant.id) for _ in range(3)), tenant_id=tenant.id)
    running, waiting = await worker.claim(2)
    assert waiting
    await store.erasures.plan_erasure(tenant.id, NOW, "operator", None)
    await eraser(store).tick()
    time.advance(seconds=20)
    await eraser(store).tick()
    assert running.run_id in await store.leases.cancellations(worker.id)
    (erasure,) = await store.erasures.erasures()
    assert (erasure.step, erasure.removed) == (ErasureStep.CANCELLING, {})
    await erase(store, time, tenant.id)
    await worker.succeed(running)
    with pytest.raises(NotFound):
        await store.reads.run(tenant.id, running.run_id)


async def test_a_deletion_can_be_taken_back_until_it_begins(store: Store, time: Time, tenant: Tenant) -> None:
    await store.erasures.plan_erasure(tenant.id, DAY, "operator", None)
    assert (await store.tenants.tenant_by_id(tenant.id)).state is TenantState.DELETING
    await eraser(store).tick()
    with pytest.raises(Conflict, match="already"):
        await store.erasures.plan_erasure(tenant.id, DAY, "operator", None)
    await store.erasures.withdraw_erasure(tenant.id)
    assert (await store.tenants.tenant_by_id(tenant.id)).state is TenantState.ACTIVE
    # Short enough that the guard against steps of the clock does not doubt that it has passed.
    await store.erasures.plan_erasure(tenant.id, timedelta(minutes=2), "operator", None)
    time.advance(minutes=2)
    await eraser(store).tick()
    with pytest.raises(Conflict, match="cannot be undone"):
        await store.erasures.withdraw_erasure(tenant.id)


async def test_the_first_tenant_stays(store: Store) -> None:
    with pytest.raises(Conflict, match="default"):
        await store.erasures.plan_erasure(DEFAULT_TENANT, NOW, "operator", None)
    with pytest.raises(NotFound):
        await store.erasures.plan_erasure(4711, NOW, "operator", None)


async def test_what_is_written_late_is_removed_too(store: Store, world: World, time: Time, tenant: Tenant) -> None:
    """A process may not have heard that the tenant is closed."""
    await store.erasures.plan_erasure(tenant.id, NOW, "operator", None)
    for _ in range(2):
        await eraser(store).tick()
        time.advance(seconds=10)
    await store.payloads.put_payload(tenant.id, new_id(), f'"{MARKER}"'.encode())
    await erase(store, time, tenant.id)
    assert places(world, MARKER) == set()


async def test_the_audit_log_of_others_refuses_to_be_changed(store: Store, world: World, tenant: Tenant) -> None:
    await store.audit.record([AuditEntry(new_id(), 99, None, "x", "y", "z")])
    await store.audit.record([AuditEntry(new_id(), tenant.id, None, "x", "y", "z")])
    for _ in range(2):  # neither before an erasure of another tenant nor during one
        with pytest.raises(Exception, match=r"only added to|cannot be stored"):
            await _run(world, "delete from {schema}audit where tenant_id = 99")
        with pytest.raises(Exception, match=r"only added to|cannot be stored"):
            await _run(world, "update {schema}audit set actor = 'me' where tenant_id = 99")
        if not await store.erasures.erasures():
            await store.erasures.plan_erasure(tenant.id, NOW, "operator", None)
        await eraser(store).tick()


async def _run(world: World, statement: str) -> None:
    if isinstance(world, PostgresWorld):
        world.database.session().execute(statement.format(schema="duetime.").encode())
        return
    assert isinstance(world.store, SqliteStore)
    await world.store.database.run(lambda connection, _: connection.raw.execute(statement.format(schema="")))

"""What `duetime doctor` finds out. Each check gives one or more findings: what was found, and what to do about it.

Checks only read. A check that cannot be made does not end the others: it is a finding too.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from duetime.api.data_folder import ENCRYPTION_KEY, with_encryption_key
from duetime.api.task_registry import nearest_task
from duetime.client.server_address import find_server, is_used
from duetime.clock import SystemClock
from duetime.crypto.sealer import Sealer, head_of, key_name_of, text_head_of
from duetime.crypto.tls import ClientTls
from duetime.duration import format_duration
from duetime.engine.clock_guard import rewind_text
from duetime.engine.scheduler_watch import REMEDY, silence_of
from duetime.engine.watcher import unserved_lanes
from duetime.errors import DuetimeError, SchemaMismatch, StreamUnavailable
from duetime.model.job import INTERNAL_TENANT
from duetime.settings import Settings
from duetime.settings.kinds import without_password
from duetime.store.address import sealer_of, store_for
from duetime.store.protocol.store import Store
from duetime.store.rules.encrypted_columns import SEALED_TABLES, Key, SealedTable
from duetime.streams.address import shown_address
from duetime.streams.brokers import Brokers
from duetime.streams.names import streams_of
from duetime.version import __version__

if TYPE_CHECKING:
    from duetime.store.postgres.server_inspection import ServerFindings
    from duetime.store.sqlite.file_inspection import FileFindings

Status = Literal["ok", "warning", "problem"]

_OLDEST_POSTGRES = 14
_APART, _FAR_APART = 1.0, 30.0
"""Seconds between two clocks: worth a look, and wrong."""
_LONG_TRANSACTION = 600.0
_FEW_CONNECTIONS = 0.8
_SHORT_STATEMENT = 30.0
_LITTLE_SPACE, _NO_SPACE = 1 << 30, 100 << 20
_LONG_WAL = 256 << 20
_BROKER_DEADLINE = 10.0
_PAGES, _ROWS = 20, 1_000
"""How much of each table is looked through for keys of encryption."""
_OF_PROCESSES = ("rewind", "scheduler", "workers", "tasks")
_START = "start one: duetime worker MODULE:APP"
_REACH = "start the broker, check the address, or move the queue: duetime queues set QUEUE --store"


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    check: str
    status: Status
    found: str
    remedy: str | None = None
    error: str | None = None
    """The class of the error that the check raised."""


async def diagnose(settings: Settings, *, restored: bool = False) -> AsyncIterator[Finding]:
    """The findings, in the order of what depends on what. `restored`: a copy that no server or worker uses."""
    if settings.sqlite_file is not None:
        if settings.url is None or settings.database_url is not None or restored:  # else the server has the database
            for finding in (
                *_of_file(settings, settings.sqlite_file, restored=restored),
                *await _key_of_file(settings),
            ):
                yield finding
        if settings.url is not None or is_used(settings):
            for finding in await _server(settings):
                yield finding
        return
    assert settings.database_url is not None
    from duetime.store.postgres.server_inspection import inspect_server

    try:
        server = await inspect_server(settings.database_url)
    except DuetimeError as error:
        yield failed("database", error)
        return
    of_server = (_version(server), *_durability(server), *_isolation(server), *_capacity(server))
    for finding in (*of_server, _pooler(server, settings)):
        yield finding
    store = store_for(settings)
    try:
        await store.open()
        try:
            version = await store.check_schema()
        except SchemaMismatch as error:
            yield failed("schema", error)
            return
        yield Finding("schema", "ok", f"version {version}")
        yield _clock((await store.now() - SystemClock().now()).total_seconds())
        checks: tuple[tuple[str, Callable[[Store, Settings], Awaitable[list[Finding]]]], ...] = (
            ("rewind", _rewind),
            ("scheduler", _scheduler),
            ("workers", _workers),
            ("tasks", _tasks),
            ("encryption", _encryption),
            ("streams", _streams),
        )
        for name, check in checks:
            if restored and name in _OF_PROCESSES:
                continue
            try:
                for finding in await check(store, settings):
                    yield finding
            except DuetimeError as error:
                yield failed(name, error)
    except DuetimeError as error:
        yield failed("database", error)
    finally:
        await store.close()


def failed(check: str, error: DuetimeError) -> Finding:
    return Finding(check, "problem", error.message, error.remedy, type(error).__name__)


async def _rewind(store: Store, settings: Settings) -> list[Finding]:
    """Whether the database went back to an earlier state within a day."""
    seen = await store.clocks.clock_seen()
    rewind = seen.rewind
    if rewind is None or seen.now - rewind.at > timedelta(days=1):
        return []
    found = f"at {rewind.at:%F %T} UTC nodes noticed that {rewind_text(rewind.lost, rewind.kept)}"
    return [Finding("rewind", "warning", found, "submit again what must not be missing: see docs/failover.md")]


# PostgreSQL


def _version(server: "ServerFindings") -> Finding:
    found = f"PostgreSQL {server.version}, {_size(server.database_bytes)}"
    if server.number < _OLDEST_POSTGRES * 10_000:
        return Finding("database", "problem", found, f"use PostgreSQL {_OLDEST_POSTGRES} or newer")
    if server.in_recovery or server.read_only:
        what = "a standby" if server.in_recovery else "read-only"
        return Finding("database", "problem", f"{found}, {what}", "let database_url name the primary")
    return Finding("database", "ok", found)


def _durability(server: "ServerFindings") -> list[Finding]:
    found = []
    if not server.fsync:
        found.append(
            Finding("durability", "problem", "fsync is off: a crash can destroy the database", "set fsync = on")
        )
    if not server.full_page_writes:
        found.append(
            Finding("durability", "problem", "full_page_writes is off: a crash can destroy pages", "set it to on")
        )
    if server.synchronous_commit == "off":
        remedy = "alter role … set synchronous_commit = on, if an accepted job must survive a crash"
        found.append(
            Finding("durability", "warning", "synchronous_commit is off: a crash loses the last commits", remedy)
        )
    return found or [Finding("durability", "ok", f"synchronous_commit is {server.synchronous_commit}, fsync is on")]


def _isolation(server: "ServerFindings") -> list[Finding]:
    if server.isolation == "read committed":
        return []
    text = f"default_transaction_isolation is {server.isolation}: a statement must see what others have just committed"
    return [Finding("isolation", "problem", text, "alter role … set default_transaction_isolation = 'read committed'")]


def _capacity(server: "ServerFindings") -> list[Finding]:
    used = f"{server.connections} of {server.most_connections} connections are in use"
    few = server.connections > _FEW_CONNECTIONS * server.most_connections
    remedy = "raise max_connections, lower pool_size, or use a pooler"
    found = [Finding("connections", "warning" if few else "ok", used, remedy if few else None)]
    if not server.autovacuum:
        found.append(
            Finding("vacuum", "problem", "autovacuum is off: tables and indexes only grow", "set autovacuum = on")
        )
    if server.oldest_transaction > _LONG_TRANSACTION:
        age = format_duration(timedelta(seconds=round(server.oldest_transaction)))
        remedy = "end it: select pid, query from pg_stat_activity order by xact_start limit 1"
        found.append(
            Finding("vacuum", "warning", f"a transaction is open for {age}: vacuum removes nothing newer", remedy)
        )
    if 0 < server.statement_timeout < _SHORT_STATEMENT:
        text = f"statement_timeout is {server.statement_timeout:g} s: long maintenance statements are ended"
        found.append(Finding("timeouts", "warning", text, "alter role … set statement_timeout = '60s', or 0"))
    return found


def _pooler(server: "ServerFindings", settings: Settings) -> Finding:
    if server.pooling is None:
        return Finding("pooler", "ok", "none: wake-ups are immediate")
    text = f"a pooler in {server.pooling} mode, which carries no LISTEN"
    if settings.direct_database_url is not None:
        return Finding("pooler", "ok", f"{text}; direct_database_url is used for wake-ups")
    remedy = "set direct_database_url to the database itself; until then processes poll twice a second"
    if server.pooling == "transaction" and settings.prepared_statements == "on":
        remedy += ". Set prepared_statements = off unless the pooler supports them (PgBouncer 1.21 with"
        remedy += " max_prepared_statements)"
    return Finding("pooler", "warning", text, remedy)


def _clock(offset: float) -> Finding:
    found = f"the database's clock is {abs(offset):.3f} s {'ahead of' if offset >= 0 else 'behind'} this machine's"
    if abs(offset) < _APART:
        return Finding("clock", "ok", found)
    remedy = "synchronize both machines (NTP); the database's clock decides what is due"
    return Finding("clock", "problem" if abs(offset) > _FAR_APART else "warning", found, remedy)


async def _scheduler(store: Store, _: Settings) -> list[Finding]:
    silence = silence_of(await store.clocks.clock_seen())
    if silence is not None:
        return [Finding("scheduler", "warning", silence, REMEDY)]
    return [Finding("scheduler", "ok", "a server is up, which fires jobs")]


async def _workers(store: Store, _: Settings) -> list[Finding]:
    now = await store.now()
    workers = await store.leases.workers()
    alive = [each for each in workers if each.lease_until > now]
    text = f"{len(alive)} alive, with {sum(each.slots for each in alive):,} slots"
    if len(workers) > len(alive):
        text += f"; {len(workers) - len(alive)} stopped renewing their leases"
    return [Finding("workers", "ok" if alive else "warning", text, None if alive else _START)]


async def _tasks(store: Store, _: Settings) -> list[Finding]:
    lanes = {lane.id: lane for lane in await store.claims.lanes() if lane.key.tenant_id != INTERNAL_TENANT}
    waiting = {(lanes[lane_id].key.task, lanes[lane_id].key.queue) for lane_id in await unserved_lanes(store, lanes)}
    now = await store.now()
    known = {task for each in await store.leases.workers() if each.lease_until > now for task in each.tasks}
    return _unserved(waiting, known, lambda queue: f"duetime worker MODULE:APP --queue {queue}")


def _unserved(waiting: Iterable[tuple[str, str]], known: Collection[str], start: Callable[[str], str]) -> list[Finding]:
    """About due runs that no live worker can take, by task and queue. `start` is the command for a worker that serves a
    queue."""
    found = []
    for task, queue in sorted(waiting):
        meant = None if task in known else nearest_task(task, known)
        remedy = f"start a worker with this task, that serves the queue: {start(queue)}"
        if meant is not None:
            remedy = f"did you mean {meant!r}? If so, cancel the jobs, and submit them again. Otherwise {remedy}"
        text = f"runs of {task} are due in the queue {queue}, and no live worker provides the task there"
        found.append(Finding("tasks", "problem", text, remedy))
    return found or [Finding("tasks", "ok", "every due run has a worker for its task")]


async def _encryption(store: Store, settings: Settings) -> list[Finding]:
    if not settings.has_encryption:
        remedy = "set DUETIME_ENCRYPTION_KEYS, the same for all processes; `duetime encryption new-key` creates one"
        return [Finding("encryption", "warning", "no key is set here: servers and targets do not start", remedy)]
    sealer = sealer_of(store, settings)
    current = await sealer.ready()
    unknown: dict[str, str] = {}
    for table in SEALED_TABLES:
        for name in await _other_keys(store, sealer, table, current) - sealer.names:
            unknown.setdefault(name, table.name)
    if unknown:
        text = ", ".join(f"{name} ({table.replace('_', ' ')})" for name, table in sorted(unknown.items()))
        remedy = "add it to DUETIME_ENCRYPTION_KEYS, after the current one"
        return [Finding("encryption", "problem", f"stored data need a key that is not set here: {text}", remedy)]
    checked = f"{_PAGES * _ROWS:,} rows of each table at most were checked"
    text = f"the key {current.decode()} encrypts; stored secrets and content can be opened ({checked})"
    return [Finding("encryption", "ok", text)]


async def _other_keys(store: Store, sealer: Sealer, table: SealedTable, current: bytes) -> set[str]:
    """The keys, other than the current one, with which the first rows of a table are encrypted."""
    found: set[str] = set()
    after: Key | None = table.first
    for _ in range(_PAGES):
        if after is None:
            break
        page = await store.reencryption.sealed_rows(table, after, head_of(current), text_head_of(current), _ROWS)
        values = [value for row in page.rows for value in row.values if value is not None]
        await sealer.learn(values)
        found |= {key_name_of(value).decode() for value in values}
        after = page.after
    return found - {"", current.decode()}


async def _streams(store: Store, _: Settings) -> list[Finding]:
    found = []
    brokers = Brokers()
    try:
        for queue in await store.streams.stream_queues():
            where = f"the queue {queue.queue} at {shown_address(queue.settings.address)}"
            try:
                async with asyncio.timeout(_BROKER_DEADLINE):
                    broker = await brokers.at(queue.settings)
                    names = [name.text for name in streams_of(queue, shared=broker.shared).values()]
                    depths = await broker.depths(names)
            except TimeoutError:
                found.append(Finding("streams", "problem", f"{where} does not answer", _REACH))
            except StreamUnavailable as error:
                found.append(Finding("streams", "problem", f"{where} is unavailable: {error.message}", _REACH))
            except DuetimeError as error:
                found.append(Finding("streams", "problem", f"{where}: {error.message}", error.remedy))
            else:
                inside = sum(depth.messages for depth in depths.values())
                found.append(Finding("streams", "ok", f"{where} answers, with {inside:,} messages"))
    finally:
        await brokers.close()
    return found or [Finding("streams", "ok", "no queue goes through a stream")]


async def _server(settings: Settings) -> list[Finding]:
    """What the server of an embedded file knows, which no other process may read."""
    from duetime.client import AsyncClient

    try:
        url, key = find_server(settings)
        async with AsyncClient(url, key, tries=1, tls=ClientTls.of(settings)) as client:
            me, stats, tasks = await client.get_me(), await client.get_stats(), await client.list_tasks()
    except DuetimeError as error:
        return [failed("server", error)]
    text = f"{without_password(url)} answers, version {me.version}"
    same = me.version == __version__
    found = [
        Finding("server", "ok" if same else "warning", text, None if same else f"this is {__version__}: update one")
    ]
    unserved = [(each.task, each.queue) for each in stats.waiting if not each.has_worker]
    start = f"duetime worker MODULE:APP --url {without_password(url)}, with a worker key in DUETIME_KEY"
    if settings.url is None:
        start = f"duetime up MODULE:APP in place of the server; or beside it: {start} (duetime keys create worker NAME)"
    return [*found, *_unserved(unserved, [each.name for each in tasks.items if each.workers], lambda _: start)]


# SQLite


def _of_file(settings: Settings, path: Path, *, restored: bool) -> list[Finding]:
    from duetime.store.sqlite.file_inspection import inspect_file

    try:
        file = inspect_file(path)
    except DuetimeError as error:
        return [failed("schema" if isinstance(error, SchemaMismatch) else "database", error)]
    of_processes = () if restored or settings.url is not None else (_workers_of(file),)
    return [_file(path, file), _schema_of(file), *_disk(path), *of_processes]


def _file(path: Path, file: "FileFindings") -> Finding:
    if not path.exists():
        return Finding("database", "ok", f"SQLite in {path}, which does not exist yet", "`duetime up` creates it")
    used = "no process uses it" if file.owner is None else f"process {file.owner} uses it"
    return Finding("database", "ok", f"SQLite in {path}, {_size(path.stat().st_size + _wal_size(path))}; {used}")


async def _key_of_file(settings: Settings) -> list[Finding]:
    file, path = settings.data_dir / ENCRYPTION_KEY, settings.sqlite_file
    if path is None or not path.exists():
        return []
    if settings.has_encryption or file.exists():
        return await _opened_by_key(settings, path)
    remedy = f"restore {file}, or set DUETIME_ENCRYPTION_KEYS; `duetime up` creates a new key"
    return [
        Finding("encryption", "warning", "the key of the data folder is missing: stored secrets stay closed", remedy)
    ]


async def _opened_by_key(settings: Settings, path: Path) -> list[Finding]:
    """Whether the key opens what is in the file. A process that uses the file says so itself."""
    from duetime.store.sqlite.file_inspection import inspect_file

    try:
        file = inspect_file(path)
        if file.owner is not None or file.schema_version is None:
            return []
        keyed = with_encryption_key(settings)
        store = store_for(keyed)
        await store.open()
        try:
            return await _encryption(store, keyed)
        finally:
            await store.close()
    except SchemaMismatch:
        return []  # reported already
    except DuetimeError as error:
        return [failed("encryption", error)]


def _schema_of(file: "FileFindings") -> Finding:
    if file.schema_version is None:
        return Finding("schema", "ok", "none yet: the first process creates it")
    return Finding("schema", "ok", f"version {file.schema_version}")


def _disk(path: Path) -> list[Finding]:
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    free = shutil.disk_usage(folder).free
    status: Status = "ok" if free > _LITTLE_SPACE else "warning" if free > _NO_SPACE else "problem"
    remedy = None if status == "ok" else "free space: a full disk stops every write"
    found = [Finding("disk", status, f"{_size(free)} are free in {folder}", remedy)]
    if (size := _wal_size(path)) > _LONG_WAL:
        remedy = "end long readers of the file (a backup, a shell): the log is emptied when none is left"
        found.append(Finding("wal", "warning", f"the write-ahead log has {_size(size)}", remedy))
    return found


def _wal_size(path: Path) -> int:
    """The bytes that wait in the write-ahead log; 0 without a log, which the last process removes."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size
    except FileNotFoundError:
        return 0


def _workers_of(file: "FileFindings") -> Finding:
    if file.workers or file.owner is not None:
        return Finding("workers", "ok", f"{file.workers} registered")
    return Finding("workers", "ok", "none: no process runs", "start everything: duetime up MODULE:APP")


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"

"""What is done to the database beyond stopping it: transactions that clash, a standby that takes over, a backup."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

import psycopg

from chaos.real.cluster import Cluster
from tests.support.postgres import Server, installed

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

_TIMEOUT = 60.0
_AGAINST_THE_GRAIN = """
do $$
declare one uuid;
begin
    -- Those that are about to be completed, a few together.
    for one in select id from duetime.runs where worker_id is not null order by id desc limit 30 loop
        perform 1 from duetime.runs where id = one for update;
        perform pg_sleep(0.002);
    end loop;
end $$
"""
_RELATIONS = """
select c.oid, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'duetime' and c.relkind = %s
  and (c.relkind = 'r' or c.relam = (select oid from pg_am where amname = 'btree'))
order by c.relname
"""
_CHECK_INDEX = "select null from public.bt_index_check(%s::oid::regclass, true)"
_CHECK_TABLE = "select msg from public.verify_heapam(%s::oid::regclass)"
_STOP_RECEIVING = ("alter system set primary_conninfo = ''", "select pg_reload_conf()")
_TERMINATE = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where pid <> pg_backend_pid() and datname = current_database()"
)


def terminate(dsn: str) -> int:
    """End every session; returns how many there were."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=2) as connection:
        return connection.execute(_TERMINATE).rowcount


def has_no_room(dsn: str) -> bool:
    """Whether the database cannot write any more, or is not there for it any more."""
    try:
        with psycopg.connect(dsn, connect_timeout=2) as connection:
            connection.execute("create temporary table much as select repeat('x', 1000) from generate_series(1, 20000)")
    except psycopg.Error:
        return True
    return False


def clock_offset(dsn: str) -> float:
    """By how much its clock differs from ours, in seconds."""
    return _insist(dsn, lambda connection: _now(connection) - time.time())


def damages(dsn: str) -> list[str]:
    """What PostgreSQL's own check of indexes and tables finds; nothing where that check is not installed."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        if connection.execute("select 1 from pg_available_extensions where name = 'amcheck'").fetchone() is None:
            return []
        connection.execute("create extension if not exists amcheck schema public")
        found = []
        for kind, check in (("i", _CHECK_INDEX), ("r", _CHECK_TABLE)):
            for oid, name in connection.execute(_RELATIONS, (kind,)).fetchall():
                try:
                    found += [f"{name}: {row[0]}" for row in connection.execute(check, (oid,)).fetchall() if row[0]]
                except psycopg.Error as error:
                    found.append(f"{name}: {error}")
        return found


def deadlock(dsn: str, seconds: float) -> int:
    """Lock runs in the opposite order to all other sessions, for a while; returns how many deadlocks came of it.

    PostgreSQL aborts the session whose `deadlock_timeout` passes first: that is never this one.
    """
    until = monotonic() + seconds
    before = _insist(dsn, _deadlocks)
    _insist(dsn, _told("alter system set deadlock_timeout = '50ms'", "select pg_reload_conf()"))
    while monotonic() < until:
        # Another fault may end this session, too.
        with contextlib.suppress(psycopg.Error), psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("set deadlock_timeout = '10min'")
            while monotonic() < until:
                connection.execute(_AGAINST_THE_GRAIN)
    _insist(dsn, _told("alter system reset deadlock_timeout", "select pg_reload_conf()", "select pg_sleep(1)"))
    return max(0, _insist(dsn, _deadlocks) - before)


async def serialize(cluster: Cluster, seconds: float) -> int:
    """Every transaction is serializable for a while, and so refused now and then; returns how often it was."""

    def refusals() -> int:
        return cluster.postgres.log_text().count("could not serialize access")

    before = refusals()
    for how in ("set default_transaction_isolation to 'serializable'", "reset default_transaction_isolation"):
        await asyncio.to_thread(_insist, cluster.dsn, _told(f"alter database chaos {how}", _TERMINATE))
        await asyncio.sleep(seconds)
    return refusals() - before


def _insist(dsn: str, act: Callable[[Connection], T]) -> T:
    """Until it is done: what was put out of order must be put in order again, whatever else is being struck."""
    deadline = monotonic() + _TIMEOUT
    while True:
        try:
            with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
                return act(connection)
        except psycopg.Error:
            if monotonic() > deadline:
                raise
            time.sleep(0.2)


def _told(*statements: str) -> Callable[[Connection], None]:
    def act(connection: Connection) -> None:
        for statement in statements:
            connection.execute(statement.encode())

    return act


def _now(connection: Connection) -> float:
    row = connection.execute("select extract(epoch from clock_timestamp())::float8").fetchone()
    return float(row[0]) if row is not None else 0.0


def _deadlocks(connection: Connection) -> int:
    """Figures reach the statistics a moment later."""
    row = connection.execute("select deadlocks from pg_stat_database where datname = current_database()").fetchone()
    return 0 if row is None else int(row[0])


def make_standby(primary: Server, *, synchronous: bool) -> Server:
    """A second server that streams from the first; where it is synchronous, nothing is committed before it has it."""
    standby = Server(installed()[0], copy_of=primary, follows=True)
    standby.start()
    if synchronous:
        with psycopg.connect(primary.dsn(), autocommit=True) as connection:
            connection.execute("alter system set synchronous_standby_names = '*'")
            connection.execute("select pg_reload_conf()")
            while connection.execute("select 1 from pg_stat_replication where sync_state = 'sync'").fetchone() is None:
                connection.execute("select pg_sleep(0.1)")
    return standby


async def fail_over(cluster: Cluster, standby: Server, tail: float = 0.0) -> tuple[float, float]:
    """The primary dies and the standby takes its place; returns since when it was dying, and when it was dead.

    `tail`: for so many seconds before, the standby receives nothing any more, and the primary goes on.
    """
    dying = monotonic()
    if tail:
        await asyncio.to_thread(_insist, standby.dsn(), _told(*_STOP_RECEIVING))
        await asyncio.sleep(tail)
    await asyncio.to_thread(cluster.postgres.stop_immediately)
    dead = monotonic()
    await asyncio.to_thread(standby.promote)
    cluster.spares.remove(standby)
    cluster.move_to(standby)
    return dying, dead


async def restore(cluster: Cluster, seconds: float) -> tuple[float, float]:
    """A base backup is made; some time later the server and its disk are gone, and the backup is put in their place.
    Returns from when to when all work is lost."""
    began = monotonic()
    copy = await asyncio.to_thread(lambda: Server(installed()[0], copy_of=cluster.postgres))
    cluster.spares.append(copy)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(cluster.postgres.stop_immediately)
    dead = monotonic()
    await asyncio.to_thread(copy.start)
    cluster.spares.remove(copy)
    cluster.move_to(copy)
    return began, dead

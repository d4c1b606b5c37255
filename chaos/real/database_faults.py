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

_PATIENCE = 60.0
_AGAINST_THE_GRAIN = """
do $$
declare one uuid;
begin
    for one in select id from duetime.runs order by id desc limit 200 loop
        perform 1 from duetime.runs where id = one for update;
        perform pg_sleep(0.005);
    end loop;
end $$
"""
_TERMINATE = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where pid <> pg_backend_pid() and datname = current_database()"
)


def terminate(dsn: str) -> None:
    """End every session."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=2) as connection:
        connection.execute(_TERMINATE)


def deadlock(dsn: str, seconds: float) -> int:
    """Lock runs in the order in which nobody else does, for a while; returns how many deadlocks came of it.

    PostgreSQL ends whoever first wonders why it waits so long: that is never this session.
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
    deadline = monotonic() + _PATIENCE
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


async def fail_over(cluster: Cluster, standby: Server) -> float:
    """The primary dies and the standby takes its place; returns when it died."""
    died = monotonic()
    await asyncio.to_thread(cluster.postgres.stop_immediately)
    await asyncio.to_thread(standby.promote)
    cluster.spares.remove(standby)
    cluster.move_to(standby)
    return died


async def restore(cluster: Cluster, seconds: float) -> tuple[float, float]:
    """A base backup is made; some time later the server and its disk are gone, and the backup is put in their place.
    Returns from when to when the work of everybody is lost."""
    began = monotonic()
    copy = await asyncio.to_thread(lambda: Server(installed()[0], copy_of=cluster.postgres))
    cluster.spares.append(copy)
    await asyncio.sleep(seconds)
    died = monotonic()
    await asyncio.to_thread(cluster.postgres.stop_immediately)
    await asyncio.to_thread(copy.start)
    cluster.spares.remove(copy)
    cluster.move_to(copy)
    return began, died

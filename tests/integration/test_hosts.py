"""Several hosts in the address of the database: one does not answer, one is away, one is a standby, one the primary."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import pytest

from duetime.errors import StoreError, StoreUnavailable
from duetime.process.ending import end_tasks
from duetime.store.postgres import PostgresStore
from duetime.store.postgres.connector import Connector
from duetime.store.protocol.store import Hint
from tests.contract.hands import job, submit
from tests.contract.worlds import execute
from tests.support.postgres import Server, free_port, installed
from tests.support.stores import opened
from tests.support.waiting import eventually


class Pair(NamedTuple):
    primary: Server
    standby: Server
    url: str


@pytest.fixture
def pair() -> Iterator[Pair]:
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen(8)  # it takes connections and answers none
    with Server(installed()[0]) as primary, silent:
        dsn = primary.create_database("duetime")
        asyncio.run(migrate(dsn))
        standby = Server(installed()[0], copy_of=primary, follows=True)
        try:
            standby.start()
            ports = silent.getsockname()[1], standby.port, primary.port
            # Python 3.13 accepts no brackets among several hosts: the driver must not see them.
            hosts = ",".join([*(f"127.0.0.1:{port}" for port in ports), f"[::1]:{free_port()}"])
            yield Pair(primary, standby, f"postgresql://postgres@{hosts}/duetime?sslmode=disable")
        finally:
            standby.close()


async def migrate(dsn: str) -> None:
    async with opened(dsn) as store:
        await store.migrate()


async def test_every_connection_follows_the_primary(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    store = PostgresStore(pair.url)
    heard: asyncio.Queue[Hint] = asyncio.Queue()
    await store.open()
    try:
        store.listen(heard.put_nowait)
        await submit(store, job())
        await asyncio.to_thread(pair.primary.stop_immediately)
        await asyncio.to_thread(pair.standby.promote)
        await eventually(lambda: _accepted(store))
        # The listener, too: it hears what another process submits there.
        async with opened(pair.standby.dsn("duetime")) as other:

            async def heard_of_another() -> bool:
                await submit(other, job())
                while not heard.empty():
                    heard.get_nowait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await heard.get()
                        return True
                return False

            await eventually(heard_of_another)

        # A primary that is demoted without a restart keeps its sessions, and refuses what they write.
        execute(pair.standby.dsn("duetime"), "alter system set default_transaction_read_only = on")
        execute(pair.standby.dsn("duetime"), "select pg_reload_conf()")
        await eventually(lambda: _refused(store))
        assert "its sessions are closed" in caplog.text
        with pytest.raises(StoreUnavailable, match="no host accepts a read-write session"):
            await store.now()
    finally:
        await store.close()


async def test_what_a_search_leaves(pair: Pair) -> None:
    """A refusal by all hosts is no outage, and a search that is not needed any more ends with its store."""
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in (pair.standby, pair.primary))
    with pytest.raises(StoreError, match="does not exist") as caught:
        await PostgresStore(f"postgresql://postgres@{hosts}/nothing").open()
    assert not isinstance(caught.value, StoreUnavailable)

    connector = Connector(pair.url)
    asking = asyncio.create_task(connector.connect(timeout=5.0))
    await asyncio.sleep(0)
    await end_tasks([asking])
    await connector.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_kernel_closes_a_connection_that_is_cut_off(migrated: str) -> None:
    store = PostgresStore(migrated)
    connection = await store.database.connect()
    try:
        link = connection._transport.get_extra_info("socket")  # type: ignore[attr-defined]
        assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert 0 < link.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) < 10_000
    finally:
        await connection.close()


async def _accepted(store: PostgresStore) -> bool:
    try:
        await submit(store, job())
    except StoreUnavailable:
        return False
    return True


async def _refused(store: PostgresStore) -> bool:
    return not await _accepted(store)

"""Sessions that the server ends while the line stays open, as a network in between may have it."""

import psycopg

from chaos.real.network import Proxy
from duetime.errors import StoreUnavailable
from duetime.store.postgres import PostgresStore
from tests.support.waiting import eventually

OTHERS = "from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()"


async def test_a_session_that_was_ended_is_given_up_and_not_tried_again(database: str) -> None:
    """The driver has read the goodbye and waits for the end of the line: what is asked of such a connection must not
    look like a bug, or it ends the process. (Found by `make chaos`: terminate backends.)"""
    proxy = Proxy(database)
    await proxy.start()
    store = PostgresStore(proxy.dsn, pool_size=1)
    await store.open()
    try:
        await store.migrate()
        await store.now()
        proxy.keep_dead_lines = True
        with psycopg.connect(database, autocommit=True) as connection:
            assert connection.execute(f"select pg_terminate_backend(pid) {OTHERS}").fetchall()
            await eventually(lambda: not connection.execute(f"select 1 {OTHERS}").fetchall())
        await eventually(lambda: proxy.dead_lines)
        try:
            await store.now()
        except StoreUnavailable as error:
            assert "gone" in str(error)
        await store.now()
    finally:
        await store.close()
        await proxy.close()

"""Wake-ups between processes by LISTEN and NOTIFY: coalesced, off the commit path, never needed for correctness.

NOTIFY inside every transaction would serialise the commits. So a hint is sent after the commit, in a statement of its
own, at most once per kind in a short interval. Listening needs one connection; while it is down, processes poll.

LISTEN belongs to a session, which a transaction pooler does not keep. Behind a pooler the process polls, unless
`direct_database_url` gives it the address of the database itself.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

import asyncpg

from duetime.clock import monotonic
from duetime.errors import StoreError
from duetime.process.ending import end_tasks
from duetime.store.postgres.database import Connection, Database
from duetime.store.protocol.store import Hint

log = logging.getLogger("duetime.store")

_CHANNEL = "duetime"
_COALESCE = 0.01
_RECONNECT = 2.0


class Hints:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._callbacks: list[Callable[[Hint], None]] = []
        self._pending: set[Hint] = set()
        self._sender: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._sent_at = 0.0

    def give(self, hint: Hint) -> None:
        """Notify listeners in this process now, and those of other processes soon."""
        self._notify(hint)
        self._pending.add(hint)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send(), name="duetime hints: send")

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._receive(), name="duetime hints: listen")

        def stop() -> None:
            with contextlib.suppress(ValueError):
                self._callbacks.remove(callback)

        return stop

    async def close(self) -> None:
        await end_tasks([self._sender, self._listener])
        self._sender = self._listener = None
        self._callbacks.clear()

    async def _send(self) -> None:
        while self._pending:
            await asyncio.sleep(max(0.0, self._sent_at + _COALESCE - monotonic()))
            hints, self._pending = self._pending, set()
            self._sent_at = monotonic()
            try:
                async with self._database.connection() as connection:
                    for hint in hints:
                        await connection.execute("select pg_notify($1, $2)", _CHANNEL, hint.value)
            except StoreError:
                return  # a lost hint costs one polling interval

    async def _receive(self) -> None:
        while True:
            connection: Connection | None = None
            try:
                connection = await self._database.connect(direct=True)
                if await connection.fetchval("select pg_backend_pid()") != connection.get_server_pid():
                    log.info("the database is behind a pooler: without direct_database_url this process polls")
                    await connection.close()
                    return
                gone = asyncio.Event()
                connection.add_termination_listener(lambda *_, gone=gone: gone.set())
                await connection.add_listener(_CHANNEL, self._received)
                await gone.wait()
            except (StoreError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                pass
            finally:
                if connection is not None:
                    connection.terminate()
            await asyncio.sleep(_RECONNECT)

    def _received(self, _connection: object, _process: int, _channel: str, payload: object) -> None:
        with contextlib.suppress(ValueError):
            self._notify(Hint(str(payload)))

    def _notify(self, hint: Hint) -> None:
        for callback in tuple(self._callbacks):
            callback(hint)

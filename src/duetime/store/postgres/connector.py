"""Opens sessions at the host that is the primary now, among the hosts of an address.

A session goes to the host where the last one was accepted. If there is none, or if it does not accept the session, one
search asks all hosts at the same time, again and again, and every caller waits for its result. So a host that does not
answer costs at most its own deadline, and during an election a process sends a few login attempts per second, however
many callers wait.

A server that does not answer any more is noticed by the kernel (`plain_connection.py`), not by the deadline of a
statement.
"""

import asyncio
import logging
from typing import Any

import asyncpg
from asyncpg import connect_utils

from duetime.errors import reason_of
from duetime.process.ending import end_tasks
from duetime.process.loop import retrieve_error
from duetime.settings.database_hosts import Host, hosts_of, without_hosts
from duetime.store.postgres.pool import Connection

log = logging.getLogger("duetime.store")


class _TlsUpgrade(connect_utils.TLSUpgradeProto):
    """A login that is cancelled while its TCP connection is being made leaves nothing that waits for this future.
    asyncio would log its exception as never retrieved."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self.on_data.cancelled():
            self.on_data.exception()


connect_utils.TLSUpgradeProto = _TlsUpgrade  # type: ignore[misc]

HOST_DEADLINE = 2.0
"""Seconds for one login at one of several hosts. Three of them and a search fit into the deadline of a caller."""
_SEARCH = 3.0
_ASK_AGAIN = 0.3
_DEFINITIVE = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)
"""Refusals that waiting does not change, if all hosts agree."""


class Connector:
    def __init__(self, url: str, target: str = "read-write") -> None:
        """`target` is the kind of session to look for among several hosts, unless the address says it."""
        self.url = url
        self.address = hosts_of(url)
        self._login = without_hosts(url)
        self._target = self.address.target or target
        self._last: Host | None = None
        """The host that accepted the last session."""
        self._search: asyncio.Task[Host] | None = None
        self._found: Connection | None = None
        """The session of the last search, until a caller takes it."""
        self._news = logging.INFO
        """The level at which a host that was found is logged: the first one is no change."""
        self._asking: set[asyncio.Task[Host | None]] = set()

    async def connect(self, *, timeout: float, **how: Any) -> Connection:
        if len(self.address.hosts) < 2:
            return await asyncpg.connect(self.url, timeout=timeout, **how)
        host = self._last
        if host is not None:
            try:
                return await self._open(host, how)
            except Exception as error:
                if self._last == host:
                    self._last = None
                    log.warning("the database host %s accepts no session: %s", host, _reason(error))
        if self._last is None:
            self._last = await self._find(how)
        connection, self._found = self._found, None
        if connection is not None and not connection.is_closed():
            return connection
        return await self._open(self._last, how)

    async def close(self) -> None:
        await end_tasks([self._search, *self._asking])
        self._drop_found()

    def forget(self) -> None:
        """The host of the last session is not the primary any more."""
        if len(self.address.hosts) > 1:
            self._last = None

    def _drop_found(self) -> None:
        if self._found is not None:
            self._found.terminate()
            self._found = None

    async def _open(self, host: Host, how: dict[str, Any]) -> Connection:
        at: dict[str, Any] = {"host": host.name, "port": host.port, "target_session_attrs": self._target}
        found: Connection = await asyncpg.connect(self._login, timeout=HOST_DEADLINE, **at, **how)
        return found

    async def _find(self, how: dict[str, Any]) -> Host:
        if self._search is None or self._search.done():
            self._search = asyncio.create_task(self._ask_all(how), name="duetime store: find the primary")
            self._search.add_done_callback(retrieve_error)
        return await asyncio.shield(self._search)

    async def _ask_all(self, how: dict[str, Any]) -> Host:
        answers: dict[Host, Exception] = {}
        over = False
        self._drop_found()

        async def ask(host: Host) -> Host | None:
            while not over:
                try:
                    found = await self._open(host, how)
                except Exception as error:
                    answers[host] = error
                    if _all_refuse(answers, len(self.address.hosts)):
                        raise
                    await asyncio.sleep(_ASK_AGAIN)
                else:
                    if over or self._found is not None:
                        found.terminate()
                        return None
                    self._found = found
                    return host
            return None

        asking = [asyncio.create_task(ask(host)) for host in self.address.hosts]
        for task in asking:
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
            task.add_done_callback(retrieve_error)
        try:
            done, _ = await asyncio.wait(asking, timeout=_SEARCH, return_when=asyncio.FIRST_COMPLETED)
        finally:
            over = True
            for task in asking:
                task.cancel()  # and do not wait: the driver may take a second to give up a login
        for task in done:
            if (host := task.result()) is not None:
                log.log(self._news, "the database host %s accepts sessions", host)
                self._news = logging.WARNING
                return host
        texts = (f"{host}: {_reason(answers[host]) if host in answers else 'no answer'}" for host in self.address.hosts)
        raise ConnectionError(f"no host accepts a {self._target} session ({'; '.join(texts)})")


def _all_refuse(answers: dict[Host, Exception], hosts: int) -> bool:
    return len(answers) == hosts and all(isinstance(error, _DEFINITIVE) for error in answers.values())


def _reason(error: Exception) -> str:
    match error:
        case asyncpg.exceptions.TargetServerAttributeNotMatched():
            return "another kind of server, such as a standby"
        case TimeoutError():
            return "no answer in time"
        case _:
            return reason_of(error)

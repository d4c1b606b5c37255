"""Connections, deadlines, and the translation of the driver's errors.

Connections have no session state, so that a transaction-pooling proxy can be used. Every statement has a deadline. No
module above this file sees an exception of the driver.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from types import TracebackType
from typing import Any, Literal
from weakref import WeakSet

import asyncpg

from duetime.clock import monotonic
from duetime.errors import (
    DuetimeError,
    LeaseLost,
    SchemaMismatch,
    StoreError,
    StoreRejected,
    StoreUnavailable,
    reason_of,
)
from duetime.model.tenant import TenantState
from duetime.store.postgres.connector import Connector
from duetime.store.postgres.plain_connection import PlainConnection
from duetime.store.postgres.pool import Connection as Connection
from duetime.store.postgres.pool import LifoPool, end, is_gone
from duetime.store.rules.limit_scopes import too_many_lanes
from duetime.store.rules.quotas import REFUSED, over_quota
from duetime.store.rules.tenant_states import may_not_submit
from duetime.store.shared.statements import numbered, shared_statements, statements
from duetime.store.shared.transaction import NotUnique

log = logging.getLogger("duetime.store")

MARK = "/* duetime store */ "
"""The prefix of every statement of duetime. A session whose current statement has it belongs to duetime at that moment.
The application name proves nothing, because a pooler shares sessions between clients."""
_NUMBERED = {
    name: numbered(text) for name, text in {**shared_statements(), **statements("duetime.store.postgres")}.items()
}
SQL = {name: MARK + text for name, (text, _) in _NUMBERED.items()}
PARAMETERS = {name: parameters for name, (_, parameters) in _NUMBERED.items()}
"""The named parameters of each statement, in the driver's order."""
DEADLINE = 30.0
CONNECT_DEADLINE = 10.0
_LEFT_BEFORE = 5.0
_NO_ROLE = "DT403"
"""The SQLSTATE of `schema.sql` when the role for tenants is missing and cannot be created."""
_LEASE_OVER = "DT408"
_LANE_GONE = "DT410"
TOO_MANY_LANES = "DT429"
OVER_QUOTA = "DT507"
NOT_ACTIVE = "DT423"
"""The SQLSTATE of new work of a tenant that is suspended or being deleted."""
_OURS = {"application_name": "duetime"}
_Isolation = Literal["read committed", "repeatable read"]


def off(*settings: str) -> str:
    """Statements that turn these settings off for the rest of a transaction."""
    return "; ".join(f"set local {setting} = off" for setting in settings)


# A page reads few rows of tables that may be large, so its plan must not depend on statistics.
_BY_INDEX = off("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit")
# A statement must not wait for a lock after its client is gone.
_ENDS_BY_ITSELF = "; ".join(
    f"set local {setting} = '30s'" for setting in ("idle_in_transaction_session_timeout", "statement_timeout")
)

Row = asyncpg.Record

_TRY_AGAIN = (
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    # The schema's only check: history has no partition for today. The next pruning creates it.
    asyncpg.CheckViolationError,
    OSError,
    TimeoutError,
)
_REFUSED = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.ProgramLimitExceededError)
_NO_SCHEMA = (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError, asyncpg.UndefinedFunctionError)


class LaneGone(StoreUnavailable):
    """The lane of a new run is asleep or gone. The caller must look it up again."""


class Database:
    """A pool of connections to one database, and the named statements."""

    def __init__(
        self,
        url: str,
        *,
        size: int = 8,
        prepared: bool = True,
        direct: str | None = None,
        target: str = "read-write",
    ) -> None:
        """`direct` is the address of the database itself, if `url` is that of a pooler."""
        self.url = url
        self.size = size
        self.prepared = prepared
        self._connector = Connector(url, target)
        self._direct = self._connector if direct is None else Connector(direct)
        self._outside: WeakSet[Connection] = WeakSet()
        self._left_at = -_LEFT_BEFORE
        """When a server was left that is no longer the primary."""
        self._pool: LifoPool | None = None

    @property
    def shown(self) -> str:
        """The address without credentials."""
        return str(self._connector.address)

    @property
    def used(self) -> int:
        """How many connections are in use."""
        return 0 if self._pool is None else self._pool.used

    async def open(self) -> None:
        with self.meaning():
            # No minimum: while the database is down, only callers must try to connect.
            pool = await asyncpg.create_pool(
                self.url,
                connect=self._connect,
                min_size=0,
                max_size=self.size,
                max_inactive_connection_lifetime=300,
                connection_class=PlainConnection,
            )
        self._pool = LifoPool(pool, timeout=CONNECT_DEADLINE)
        try:
            async with self.connection() as connection:
                await connection.fetchval("select 1")
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._connector.close()
        await self._direct.close()
        pool, self._pool = self._pool, None
        if pool is not None:
            with suppress(TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                async with asyncio.timeout(5):
                    await pool.close()

    def connection(self) -> "_PooledConnection":
        """A connection for the block. The driver's exceptions in the block are translated."""
        if self._pool is None:
            raise StoreUnavailable("the store is not open", remedy="call open() first")
        return _PooledConnection(self, self._pool)

    def transaction(
        self, isolation: _Isolation = "read committed", *, readonly: bool = False
    ) -> AbstractAsyncContextManager[Connection]:
        """A transaction that the server ends by itself if this process dies."""
        return self._within(_begin(isolation, readonly=readonly))

    def acting_for(self, tenant_id: int, *, snapshot: bool = False) -> AbstractAsyncContextManager[Connection]:
        """A transaction as the role that sees only the rows of one tenant, even if a statement lacks the condition.

        With `snapshot` it is read only, and all its statements see the same snapshot.
        """
        begin = f"{_begin('repeatable read', readonly=True)}; {_BY_INDEX}" if snapshot else _begin()
        return self._within(f"{begin}; set local role duetime_tenant; set local duetime.tenant = '{tenant_id:d}'")

    @asynccontextmanager
    async def _within(self, begin: str) -> AsyncIterator[Connection]:
        """A transaction whose settings are sent together with `begin`, in one round trip."""
        async with self.connection() as connection:
            try:
                await connection.execute(begin)
                yield connection
            except BaseException:
                await _roll_back(connection)
                raise
            await connection.execute("commit")

    async def fetch(self, name: str, *arguments: Any) -> list[Row]:
        async with self.connection() as connection:
            return await connection.fetch(SQL[name], *arguments)

    async def fetchrow(self, name: str, *arguments: Any) -> Row | None:
        async with self.connection() as connection:
            return await connection.fetchrow(SQL[name], *arguments)

    async def fetchval(self, name: str, *arguments: Any) -> Any:
        async with self.connection() as connection:
            return await connection.fetchval(SQL[name], *arguments)

    async def execute(self, name: str, *arguments: Any) -> int:
        async with self.connection() as connection:
            return affected(await connection.execute(SQL[name], *arguments))

    async def connect(self, *, direct: bool = False) -> Connection:
        """A connection outside the pool."""
        with self.meaning():
            connection = await self._connect(direct=direct)
        self._outside.add(connection)
        return connection

    async def leave_demoted(self) -> None:
        """Close all sessions: the server is no longer the primary, or accepts no writes any more. A session that says
        so a moment later is one of them, and must not close those that were opened since."""
        if monotonic() < self._left_at + _LEFT_BEFORE:
            return
        self._left_at = monotonic()
        log.warning("the database %s does not accept writes any more: its sessions are closed", self.shown)
        self._connector.forget()
        self._direct.forget()
        for connection in tuple(self._outside):
            end(connection)
        if self._pool is not None:
            await self._pool.expire(DEADLINE)

    async def _connect(self, *_: Any, direct: bool = False, **_of_pool: Any) -> Connection:
        return await (self._direct if direct else self._connector).connect(
            timeout=CONNECT_DEADLINE,
            connection_class=PlainConnection,
            command_timeout=DEADLINE,
            statement_cache_size=256 if self.prepared else 0,
            server_settings=_OURS,
        )

    @contextmanager
    def meaning(self) -> Iterator[None]:
        """Translate the driver's exceptions."""
        try:
            yield
        except DuetimeError:
            raise
        except _NO_SCHEMA as error:
            raise SchemaMismatch(
                f"the database {self.shown} has no duetime schema, or an older one: {error}",
                remedy="run: duetime migrate",
            ) from error
        except asyncpg.InvalidAuthorizationSpecificationError as error:
            raise StoreError(
                f"the database {self.shown} refused the login: {error}", remedy="check DUETIME_DATABASE_URL"
            ) from error
        except asyncpg.InvalidCatalogNameError as error:
            raise StoreError(
                f"{error} at {self.shown}", remedy="create it first, or correct DUETIME_DATABASE_URL"
            ) from error
        except _TRY_AGAIN as error:
            text = reason_of(error)
            raise StoreUnavailable(f"the database {self.shown} cannot be used now: {text}") from error
        except asyncpg.UniqueViolationError as error:
            raise NotUnique.because(error) from error
        except _REFUSED as error:
            raise StoreRejected.because(error) from error
        except (asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            # The driver raises these when the connection is closed or closing.
            raise StoreUnavailable(f"the connection to {self.shown} is gone: {reason_of(error)}") from error
        except asyncpg.PostgresError as error:
            if error.sqlstate == _NO_ROLE:
                raise StoreError(str(error.args[0]), remedy=error.hint) from error
            if error.sqlstate == _LEASE_OVER:
                raise LeaseLost(str(error.args[0])) from error
            if error.sqlstate == _LANE_GONE:
                raise LaneGone(str(error.args[0]), remedy="ask again") from error
            if error.sqlstate == TOO_MANY_LANES:
                raise too_many_lanes(str(error.args[0])) from error
            if error.sqlstate == OVER_QUOTA:
                raise over_quota(str(error.args[0]).removeprefix(REFUSED), int(error.detail or 0)) from error
            if error.sqlstate == NOT_ACTIVE:
                raise may_not_submit(TenantState(int(error.detail or 0))) from error
            raise StoreError(f"the database refused: {reason_of(error)}") from error


class _PooledConnection:
    """A class and not a generator, whose overhead would be measurable in every statement."""

    __slots__ = ("_connection", "_database", "_pool")

    def __init__(self, database: Database, pool: LifoPool) -> None:
        self._database = database
        self._pool = pool

    async def __aenter__(self) -> Connection:
        connection = self._pool.at_hand()
        if connection is None:
            with self._database.meaning():
                connection = await self._pool.take()
        self._connection = connection
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._pool.keep(self._connection):
            return
        if isinstance(error, asyncpg.InternalClientError):
            # The server has ended the session but not the TCP connection: it will never answer.
            end(self._connection)
        if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
            end(self._connection)
            await self._database.leave_demoted()
        # A connection that cannot be released has ended. That must not hide the error of the block.
        with suppress(Exception):
            await self._pool.give_back(self._connection)
        if isinstance(error, Exception):
            try:
                with self._database.meaning():
                    raise error
            finally:
                del error  # breaks the reference cycle of the error, its traceback and this frame


def _begin(isolation: _Isolation = "read committed", *, readonly: bool = False) -> str:
    begin = f"begin isolation level {isolation}"
    return f"{begin} read only" if readonly else f"{begin}; {_ENDS_BY_ITSELF}"


async def _roll_back(connection: Connection) -> None:
    """Roll a transaction back; if that fails, close its session."""
    if not is_gone(connection):
        try:
            await connection.execute("rollback", timeout=CONNECT_DEADLINE)
        except Exception:
            end(connection)


def affected(tag: str) -> int:
    """The number of rows in a command tag."""
    last = tag.rpartition(" ")[2]
    return int(last) if last.isdigit() else 0


def columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Rows as columns, for unnest. Without rows there are still `width` columns."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]

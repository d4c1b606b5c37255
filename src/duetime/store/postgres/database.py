"""Connections, deadlines, and what the database's errors mean to duetime.

No session state is kept on a connection, so that a transaction-pooling proxy may stand in between. Every statement has
a deadline. Nothing above this file sees an exception of the driver.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from types import TracebackType
from typing import Any, Literal
from urllib.parse import urlsplit

import asyncpg

from duetime.errors import DuetimeError, SchemaMismatch, StoreError, StoreRejected, StoreUnavailable, reason_of
from duetime.store.postgres.plain_connection import PlainConnection
from duetime.store.postgres.pool import Connection as Connection
from duetime.store.postgres.pool import LifoPool, end, is_gone
from duetime.store.rules.limit_scopes import too_many_lanes
from duetime.store.rules.quotas import REFUSED, over_quota
from duetime.store.shared.statements import SHARED, numbered, statements
from duetime.store.shared.transaction import NotUnique

MARK = "/* duetime store */ "
"""How each statement of ours begins: a session in which one stands is ours at that moment. What it is called proves
nothing, since a pooler gives the session of one to another."""
_NUMBERED = {
    name: numbered(text) for package in (SHARED, "duetime.store.postgres") for name, text in statements(package).items()
}
SQL = {name: MARK + text for name, (text, _) in _NUMBERED.items()}
PARAMETERS = {name: parameters for name, (_, parameters) in _NUMBERED.items()}
"""The named parameters of each statement, in the order in which the driver takes them."""
DEADLINE = 30.0
CONNECT_DEADLINE = 10.0
_NO_ROLE = "DT403"
"""What `schema.sql` raises when the role for tenants is missing and cannot be made."""
_LANE_GONE = "DT410"
TOO_MANY_LANES = "DT429"
OVER_QUOTA = "DT507"
_OURS = {"application_name": "duetime"}
_Isolation = Literal["read committed", "repeatable read"]


def off(*settings: str) -> str:
    """Statements that turn these off for the rest of a transaction."""
    return "; ".join(f"set local {setting} = off" for setting in settings)


# A page reads little of tables that may be large, so its plan shall not depend on what is believed of their size.
_BY_INDEX = off("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit")
# A statement that waits for a lock when its client vanishes shall not get it for nobody.
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
    # The only check there is: history has no partition for today. Whoever prunes next makes it.
    asyncpg.CheckViolationError,
    OSError,
    TimeoutError,
)
_REFUSED = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.ProgramLimitExceededError)
_NO_SCHEMA = (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError, asyncpg.UndefinedFunctionError)


class LaneGone(StoreUnavailable):
    """A lane that a run was to be stored in does not hold any more; it is to be looked up again."""


class Database:
    """A pool of connections to one database, and the named statements to run on them."""

    def __init__(self, url: str, *, size: int = 8, prepared: bool = True) -> None:
        self.url = url
        self.size = size
        self.prepared = prepared
        self._lender: LifoPool | None = None

    @property
    def shown(self) -> str:
        """The address without its password."""
        parts = urlsplit(self.url)
        return f"{parts.hostname or 'localhost'}:{parts.port or 5432}{parts.path}"

    @property
    def used(self) -> int:
        """How many connections somebody works on."""
        return 0 if self._lender is None else self._lender.used

    async def open(self) -> None:
        with self.meaning():
            # No connection is kept for its own sake: while the database is away, nobody but callers shall try it.
            pool = await asyncpg.create_pool(
                self.url,
                min_size=0,
                max_size=self.size,
                command_timeout=DEADLINE,
                timeout=CONNECT_DEADLINE,
                statement_cache_size=256 if self.prepared else 0,
                max_inactive_connection_lifetime=300,
                connection_class=PlainConnection,
                server_settings=_OURS,
            )
        self._lender = LifoPool(pool, patience=CONNECT_DEADLINE)
        try:
            async with self.connection() as connection:
                await connection.fetchval("select 1")
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        lender, self._lender = self._lender, None
        if lender is not None:
            with suppress(TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                async with asyncio.timeout(5):
                    await lender.close()

    def connection(self) -> "_Loan":
        """A connection for as long as the block lasts; what the driver raises in it is raised as ours."""
        if self._lender is None:
            raise StoreUnavailable("the store is not open", remedy="call open() first")
        return _Loan(self, self._lender)

    def transaction(
        self, isolation: _Isolation = "read committed", *, readonly: bool = False
    ) -> AbstractAsyncContextManager[Connection]:
        """A transaction that the server ends by itself when we vanish in the middle of it."""
        return self._within(_begin(isolation, readonly=readonly))

    def acting_for(self, tenant_id: int, *, snapshot: bool = False) -> AbstractAsyncContextManager[Connection]:
        """A transaction as the role that sees the rows of one tenant and no others, whatever a statement forgets.

        With `snapshot` it only reads, and all its statements see the same moment.
        """
        begin = f"{_begin('repeatable read', readonly=True)}; {_BY_INDEX}" if snapshot else _begin()
        return self._within(f"{begin}; set local role duetime_tenant; set local duetime.tenant = '{tenant_id:d}'")

    @asynccontextmanager
    async def _within(self, begin: str) -> AsyncIterator[Connection]:
        """A transaction that begins in one round trip, with all that is to hold in it."""
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

    async def connect(self, url: str | None = None) -> Connection:
        """A connection of one's own, for what may not share the pool."""
        with self.meaning():
            return await asyncpg.connect(
                url or self.url,
                connection_class=PlainConnection,
                timeout=CONNECT_DEADLINE,
                command_timeout=DEADLINE,
                statement_cache_size=256 if self.prepared else 0,
                server_settings=_OURS,
            )

    @contextmanager
    def meaning(self) -> Iterator[None]:
        """Turn the driver's errors into ours."""
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
            # The driver's own word for "the connection is gone or busy dying".
            raise StoreUnavailable(f"the connection to {self.shown} is gone: {reason_of(error)}") from error
        except asyncpg.PostgresError as error:
            if error.sqlstate == _NO_ROLE:
                raise StoreError(str(error.args[0]), remedy=error.hint) from error
            if error.sqlstate == _LANE_GONE:
                raise LaneGone(str(error.args[0]), remedy="ask again") from error
            if error.sqlstate == TOO_MANY_LANES:
                raise too_many_lanes(str(error.args[0])) from error
            if error.sqlstate == OVER_QUOTA:
                raise over_quota(str(error.args[0]).removeprefix(REFUSED), int(error.detail or 0)) from error
            raise StoreError(f"the database said no: {reason_of(error)}") from error


class _Loan:
    """Written out, because what a generator would take for it is felt in every statement."""

    __slots__ = ("_connection", "_database", "_lender")

    def __init__(self, database: Database, lender: LifoPool) -> None:
        self._database = database
        self._lender = lender

    async def __aenter__(self) -> Connection:
        connection = self._lender.at_hand()
        if connection is None:
            with self._database.meaning():
                connection = await self._lender.take()
        self._connection = connection
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._lender.keep(self._connection):
            return
        if isinstance(error, asyncpg.InternalClientError):
            # The server has ended the session, and its end of the line is still open: nobody will answer.
            end(self._connection)
        # One that cannot be given back has ended: no failure of what was done on it, and no reason to hide another.
        with suppress(Exception):
            await self._lender.give_back(self._connection)
        if isinstance(error, Exception):
            try:
                with self._database.meaning():
                    raise error
            finally:
                del error  # or it would keep what keeps it


def _begin(isolation: _Isolation = "read committed", *, readonly: bool = False) -> str:
    begin = f"begin isolation level {isolation}"
    return f"{begin} read only" if readonly else f"{begin}; {_ENDS_BY_ITSELF}"


async def _roll_back(connection: Connection) -> None:
    """Give a transaction up; one that cannot be told so ends with its session."""
    if not is_gone(connection):
        try:
            await connection.execute("rollback", timeout=CONNECT_DEADLINE)
        except Exception:
            end(connection)


def affected(tag: str) -> int:
    """How many rows a command's tag says it touched."""
    last = tag.rpartition(" ")[2]
    return int(last) if last.isdigit() else 0


def columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Rows as columns, for unnest; keeps the width when there are no rows."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]

"""The callers' own connections, as different libraries make them. Only this file knows which libraries there are.

A connection is recognised by the module of its class, so that no library is imported for it. A pool, an engine or a
session factory is refused: it has no transaction that a job could be part of.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar
from uuid import UUID

from duetime.errors import InvalidInput

T = TypeVar("T")

ACCEPTED = (
    "asyncpg connections",
    "psycopg 3 connections, sync and async",
    "SQLAlchemy's Connection, Session, AsyncConnection and AsyncSession",
    "Django's connection (django.db.connection)",
    "sqlite3 connections",
)
POSTGRES, SQLITE = "postgresql", "sqlite"


class SqliteSession(Protocol):
    """A caller's connection to an SQLite file, for the time of one call."""

    @property
    def in_transaction(self) -> bool: ...

    @property
    def autocommits(self) -> bool:
        """Whether a statement outside of a transaction is committed at once."""

    def execute(self, statement: str, parameters: Any = (), /) -> Any: ...

    def executemany(self, statement: str, rows: Any, /) -> Any: ...


class CallerConnection(ABC):
    is_async: ClassVar[bool] = False

    def __init__(self, given: Any) -> None:
        self.given = given

    @classmethod
    @abstractmethod
    def accepts(cls, given: object) -> bool:
        """Whether this object of the library is a connection."""

    @property
    @abstractmethod
    def dialect(self) -> str:
        """The kind of its database."""

    async def value(self, statement: str, given: Mapping[str, Any]) -> object:
        """One value from PostgreSQL. The statement has a `{name}` for each parameter."""
        raise NotImplementedError

    async def in_sqlite(self, work: Callable[[SqliteSession], T]) -> T:
        """Call this with the session of an SQLite file, on a thread that may use it."""
        raise NotImplementedError


def caller_connection(given: object) -> CallerConnection:
    """Raises `InvalidInput` with what is accepted."""
    for each in type(given).__mro__:
        for adapter in _ADAPTERS.get(each.__module__.partition(".")[0], ()):
            if adapter.accepts(given):
                return adapter(given)
    raise InvalidInput(
        f"{type(given).__module__}.{type(given).__qualname__} is not a supported connection",
        field="connection",
        remedy=f"pass an open connection: {'; '.join(ACCEPTED)}",
    )


class _Asyncpg(CallerConnection):
    is_async = True
    dialect = POSTGRES

    @classmethod
    def accepts(cls, given: object) -> bool:
        return hasattr(given, "is_in_transaction")  # a pool has none

    async def value(self, statement: str, given: Mapping[str, Any]) -> object:
        return await self.given.fetchval(_numbered(statement, given), *given.values())


class _Psycopg(CallerConnection):
    dialect = POSTGRES

    @classmethod
    def accepts(cls, given: object) -> bool:
        return hasattr(given, "pgconn") and not _is_async_psycopg(given)

    async def value(self, statement: str, given: Mapping[str, Any]) -> object:
        # The caller's connection may have any row factory; this cursor returns tuples.
        cursor = self.given.cursor(row_factory=lambda _: tuple)
        cursor.execute(_named(statement, given), _plain(given))
        return cursor.fetchone()[0]


class _AsyncPsycopg(_Psycopg):
    is_async = True

    @classmethod
    def accepts(cls, given: object) -> bool:
        return hasattr(given, "pgconn") and _is_async_psycopg(given)

    async def value(self, statement: str, given: Mapping[str, Any]) -> object:
        cursor = self.given.cursor(row_factory=lambda _: tuple)
        await cursor.execute(_named(statement, given), _plain(given))
        return (await cursor.fetchone())[0]


class _SqlAlchemy(CallerConnection):
    """`exec_driver_sql` begins SQLAlchemy's transaction and passes the values to the driver as they are."""

    classes: ClassVar = {"Connection", "Session", "scoped_session"}

    @classmethod
    def accepts(cls, given: object) -> bool:
        return any(each.__name__ in cls.classes and _is_of(each, "sqlalchemy") for each in type(given).__mro__)

    @property
    def dialect(self) -> str:
        found: str = self._bind().dialect.name
        return found

    def _bind(self) -> Any:
        return self.given.get_bind() if hasattr(self.given, "get_bind") else self.given

    async def value(self, statement: str, given: Mapping[str, Any]) -> object:
        connection = _of_session(self.given)
        return connection.exec_driver_sql(*_driver_sql(connection.dialect, statement, given)).scalar()

    async def in_sqlite(self, work: Callable[[SqliteSession], T]) -> T:
        return _work_in(_of_session(self.given), work)


class _AsyncSqlAlchemy(_SqlAlchemy):
    is_async = True
    classes: ClassVar = {"AsyncConnection", "AsyncSession", "async_scoped_session"}

    async def value(self, statement: str, given: Mapping[str, Any]) -> object:
        connection = await self._connection()
        return (await connection.exec_driver_sql(*_driver_sql(connection.dialect, statement, given))).scalar()

    async def in_sqlite(self, work: Callable[[SqliteSession], T]) -> T:
        found: T = await (await self._connection()).run_sync(_work_in, work)
        return found

    async def _connection(self) -> Any:
        found = _of_session(self.given)
        return await found if inspect.isawaitable(found) and found is not self.given else found


class _Django(CallerConnection):
    @classmethod
    def accepts(cls, given: object) -> bool:
        return hasattr(given, "vendor") and hasattr(given, "ensure_connection")

    @property
    def dialect(self) -> str:
        found: str = self.given.vendor
        return found

    async def value(self, statement: str, given: Mapping[str, Any]) -> object:
        with self.given.cursor() as cursor:
            cursor.execute(_named(statement, given), _plain(given))
            return cursor.fetchone()[0]

    async def in_sqlite(self, work: Callable[[SqliteSession], T]) -> T:
        self.given.ensure_connection()
        return work(_Session(self.given.connection, self.given.connection))


class _Sqlite(CallerConnection):
    dialect = SQLITE

    @classmethod
    def accepts(cls, given: object) -> bool:
        return hasattr(given, "in_transaction")

    async def in_sqlite(self, work: Callable[[SqliteSession], T]) -> T:
        return work(_Session(self.given, self.given))


_ADAPTERS: dict[str, tuple[type[CallerConnection], ...]] = {
    "asyncpg": (_Asyncpg,),
    "psycopg": (_Psycopg, _AsyncPsycopg),
    "sqlalchemy": (_SqlAlchemy, _AsyncSqlAlchemy),
    "django": (_Django,),
    "sqlite3": (_Sqlite,),
}


class _Session:
    """Statements on a caller's connection, whatever its rows look like otherwise."""

    def __init__(self, cursors: Any, raw: Any) -> None:
        """`raw` is the driver's connection, which knows whether there is a transaction."""
        self._cursors = cursors
        self._raw = raw

    @property
    def in_transaction(self) -> bool:
        found: bool = self._raw.in_transaction
        return found

    @property
    def autocommits(self) -> bool:
        return self._raw.isolation_level is None or getattr(self._raw, "autocommit", None) is True

    def execute(self, statement: str, parameters: Any = (), /) -> Any:
        return self._cursor("execute", statement, parameters)

    def executemany(self, statement: str, rows: Any, /) -> Any:
        return self._cursor("executemany", statement, rows)

    def _cursor(self, method: str, *given: Any) -> Any:
        cursor = self._cursors.cursor()
        if hasattr(cursor, "row_factory"):
            cursor.row_factory = None
        getattr(cursor, method)(*given)
        return cursor


def _work_in(connection: Any, work: Callable[[SqliteSession], T]) -> T:
    """On a SQLAlchemy connection. Its own statement begins its transaction: otherwise its `commit` would do nothing."""
    connection.exec_driver_sql("select 1")
    proxied = connection.connection
    return work(_Session(proxied, proxied.driver_connection))


def _of_session(given: Any) -> Any:
    """The connection of a session, inside its transaction."""
    return given.connection() if hasattr(given, "get_bind") else given


def _is_of(cls: type, package: str) -> bool:
    return cls.__module__.partition(".")[0] == package


def _is_async_psycopg(given: object) -> bool:
    return inspect.iscoroutinefunction(getattr(given, "execute", None))


def _driver_sql(dialect: Any, statement: str, given: Mapping[str, Any]) -> tuple[str, Any]:
    if dialect.paramstyle == "pyformat":
        return _named(statement, given), _plain(given)
    if dialect.paramstyle == "format":
        return statement.format(**dict.fromkeys(given, "%s")), tuple(_plain(given).values())
    return _numbered(statement, given), tuple(given.values())


def _numbered(statement: str, given: Mapping[str, Any]) -> str:
    return statement.format(**{name: f"${number}" for number, name in enumerate(given, 1)})


def _named(statement: str, given: Mapping[str, Any]) -> str:
    return statement.format(**{name: f"%({name})s" for name in given})


def _plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """psycopg adapts by exact type, and asyncpg returns UUIDs of its own subclass."""
    return {name: str(item) if isinstance(item, UUID) else item for name, item in given.items()}

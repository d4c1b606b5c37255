"""Databases with a schema in them, for one test after another.

Creating a database from a template costs PostgreSQL 200 ms of CPU time, most tests less than 50. So a test gets the
database of the test before it, with the rows and sequences that the template has. A database whose schema a test has
changed is dropped, and created anew. An embedded database is a copy of a migrated file.
"""

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from duetime.clock import ManualClock, SystemClock
from duetime.store.postgres import PostgresStore
from duetime.store.sqlite import SqliteStore
from tests.support.postgres import Server

FOR_EVER = timedelta(days=36_500)
Session = psycopg.Connection[tuple[Any, ...]]
Table = tuple[str, str]

_OURS = "c.oid >= 16384"  # what is below belongs to PostgreSQL
_CHANGES = "select count(*), sum(xmin::text::bigint) from {} where {} >= 16384"
_CATALOGS = {"pg_attribute": "attrelid", "pg_statistic": "starelid"} | dict.fromkeys(
    ("pg_constraint", "pg_event_trigger", "pg_extension", "pg_namespace", "pg_policy", "pg_proc", "pg_trigger"), "oid"
)
_SHAPE = f"""
select count(*), sum(hashtextextended(
    row(c.oid, relname, relowner, relacl, reloptions, relrowsecurity, relispartition)::text, 0))
from pg_class c where {_OURS}
{"".join(f" union all {_CHANGES.format(name, column)}" for name, column in _CATALOGS.items())}
union all select count(*), sum(setrole::bigint) from pg_db_role_setting
    where setdatabase = (select oid from pg_database where datname = current_database())
"""
"""All that a test may change besides rows. Rows of `pg_class` change with the size of a table too."""
_WRITTEN = f"""
select n.nspname, c.relname, pg_relation_size(c.oid) / 8192
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where {_OURS} and relkind = 'r' and pg_relation_size(c.oid) > 0
"""
_DELETE, _TRUNCATE = sql.SQL("delete from {}"), sql.SQL("truncate {} cascade")
_FEW = 16
"""Up to so many pages, deleting rows is cheaper than making a new file for the table and each of its indexes."""
_COUNTED = {("duetime", "runs")}
"""Tables that are without pages before each test: the sweep goes over so many at a time."""
_SEQUENCES = "select schemaname, sequencename, start_value, last_value from pg_sequences order by 1, 2"
_END_OTHERS = """
select count(pg_terminate_backend(pid, 10000)) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""


class Prepared:
    """A database that `fill` has prepared once, and that comes back as it was then whenever it is taken."""

    def __init__(self, server: Server, name: str, fill: Callable[[str], None]) -> None:
        self.server = server
        self.dsn = server.dsn(name)
        self._name = name
        self._template = f"{name}_template"
        self._shape: Any = None
        self._session: Session | None = None
        atexit.register(self.leave)
        fill(server.create_database(self._template))
        with psycopg.connect(server.dsn(self._template), autocommit=True) as session:
            for table in _COUNTED & {table for table, _ in _written(session)}:
                session.execute(_TRUNCATE.format(sql.Identifier(*table)))
            self._sequences = session.execute(_SEQUENCES).fetchall()
            self._pages = dict(_written(session))
            self._rows = {table: rows for table in self._pages if (rows := _rows(session, table))}

    def take(self) -> str:
        """The dsn, once the database is as it was. A session that is still in it is ended."""
        session = self.session()
        if self._shape is not None:
            session.execute(_END_OTHERS)
        if self._shape is None or self._shape != session.execute(_SHAPE).fetchall():
            self._create()
        else:
            with session.transaction():
                self._restore(session)
        return self.dsn

    def session(self) -> Session:
        """A session of the tests' own, which stays until `leave`."""
        if self._shape is None:
            return self._create()
        if self._session is None or self._session.closed or not _answers(self._session):
            self._session = psycopg.connect(self.dsn, autocommit=True)
        return self._session

    def leave(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _create(self) -> Session:
        self.leave()
        self.server.drop_database(self._name)
        self.server.create_database(self._name, template=self._template)
        self._session = psycopg.connect(self.dsn, autocommit=True)
        self._shape = self._session.execute(_SHAPE).fetchall()
        return self._session

    def _restore(self, session: Session) -> None:
        session.execute("set local session_replication_role = replica")  # rows go in any order, without triggers
        emptying = [
            # A table that begins with pages keeps them: plans depend on them.
            (_TRUNCATE if pages > _FEW + self._pages.get(table, 0) or table in _COUNTED else _DELETE).format(
                sql.Identifier(*table)
            )
            for table, pages in _written(session)
            if table not in self._rows
        ]
        session.execute(sql.SQL("; ").join(emptying))
        for table, rows in self._rows.items():
            if _rows(session, table) != rows:
                name = sql.Identifier(*table)
                session.execute(_DELETE.format(name))
                with session.cursor() as cursor, cursor.copy(sql.SQL("copy {} from stdin").format(name)) as copy:
                    copy.write(rows)
        sequences = session.execute(_SEQUENCES).fetchall()
        for (schema, name, start, last), (*_, now) in zip(self._sequences, sequences, strict=True):
            if last != now:
                used = last is not None
                place = sql.Identifier(schema, name).as_string(session)
                session.execute("select setval(%s, %s, %s)", [place, last if used else start, used])


def _written(session: Session) -> list[tuple[Table, int]]:
    """The tables that have or had rows, and how many pages."""
    return [((schema, name), pages) for schema, name, pages in session.execute(_WRITTEN).fetchall()]


def _rows(session: Session, table: Table) -> bytes:
    with session.cursor() as cursor, cursor.copy(sql.SQL("copy {} to stdout").format(sql.Identifier(*table))) as copy:
        return b"".join(bytes(part) for part in copy)


def _answers(session: Session) -> bool:
    try:
        session.execute("select 1")
    except psycopg.OperationalError:
        return False
    return True


@cache
def migrated(server: Server) -> Prepared:
    """A database with duetime's schema, and room for the history of today."""
    return Prepared(server, "migrated", lambda dsn: asyncio.run(migrate(PostgresStore(dsn))))


def sqlite_file(path: Path, start: datetime | None = None) -> Path:
    """A file with duetime's schema at this path, of this moment or of now."""
    shutil.copyfile(_sqlite_template(start), path)
    return path


@cache
def _sqlite_template(start: datetime | None) -> Path:
    folder = tempfile.TemporaryDirectory(prefix="duetime-sqlite-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "duetime.db"
    asyncio.run(migrate(SqliteStore(path, clock=SystemClock() if start is None else ManualClock(start))))
    return path


async def migrate(store: PostgresStore | SqliteStore) -> None:
    await store.open()
    await store.migrate()
    await store.pruning.prune(FOR_EVER, FOR_EVER)
    await store.close()

"""Creating and migrating the schema. `store/shared/release.py` lists the files of a release.

A new database gets `schema.sql` with the functions in it. A database of an older release gets the missing migrations in
order, and the functions that have changed. Each step commits together with the version that it reaches, under one
advisory lock: of two processes that migrate at once, the second finds nothing to do.

Functions. A file is applied when the hash of its text differs from the stored one, in the transaction that reaches this
release's version: no process ever sees that version with other functions. An older release that runs beside a newer one
must not restore its functions, so a release applies functions only while the database's version is not above its own.
Therefore a release that changes a function also raises the version, if need be by a migration that is only a comment.

`create or replace` cannot change the arguments or the result of a function. Nodes of the older release keep calling
the old one until they are restarted, so the new one gets a new name, and a migration of a later release drops the old
one and raises `OLDEST_CODE`. If only other functions and triggers call it, the migration of the same release drops
it (`drop function if exists`): migrations come before functions, and the last one commits together with them.

Indexes of large tables are built by migrations outside a transaction. An idle transaction on another connection then
holds the lock, which does not block `create index concurrently`. If the process is killed, it leaves an
invalid index behind: the next process drops it and builds it again.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import asyncpg

from duetime.errors import SchemaMismatch
from duetime.model.job import DEFAULT_TENANT
from duetime.model.tenant import FIRST_LIMITS
from duetime.store.postgres.database import SQL, Connection
from duetime.store.postgres.lock_wait import with_lock_wait
from duetime.store.postgres.partitions import keep_room_ahead
from duetime.store.postgres.role import Role
from duetime.store.rules.quotas import column_values
from duetime.store.shared.release import FunctionFile, Migration, load_release
from duetime.store.shared.schema_version import check_versions

RELEASE = load_release("duetime.store.postgres")
VERSION = RELEASE.version
# The oldest code (by the schema version it was written for) that still runs on the newest schema.
OLDEST_CODE = 1

_FUNCTIONS_HERE = "-- {functions}"
# All later statements on a table queue behind a waiting strong lock, and workers would lose their leases. So the wait
# is short, and `with_lock_wait` retries.
_BEGIN = """
set local lock_timeout = '3s';
set local statement_timeout = '600s';
select pg_advisory_xact_lock(hashtextextended('duetime migrate', 0))"""
_LOCK_WAIT = 3.0
_SCRIPT_DEADLINE = 600.0
_INDEX_DEADLINE = 86_400.0
_INVALID_INDEXES = """
select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid
where not i.indisvalid and c.relkind = 'i' and c.relnamespace = 'duetime'::regnamespace"""


class _Found(NamedTuple):
    """The schema of a database."""

    version: int
    """0: no schema."""
    functions: Mapping[str, str]
    """Hashes by the names of their files."""

    def changed_functions(self) -> list[FunctionFile]:
        return [file for file in RELEASE.functions if self.functions.get(file.name) != file.hash]

    def next_step(self) -> str | None:
        """The next step; None: the schema is up to date."""
        if self.version == 0:
            return "creating the schema"
        if self.version < RELEASE.version:
            return f"migration {self.version + 1}"
        if self.version == RELEASE.version and self.changed_functions():
            return "replacing functions"
        return None


class SchemaRole(Role):
    async def migrate(self) -> list[int]:
        applied = []
        while step := (await self._found()).next_step():
            reached = await with_lock_wait(self.database, step, self._take_step)
            if reached is not None:
                applied.append(reached)
        await with_lock_wait(self.database, "making room for history", lambda: keep_room_ahead(self.database))
        return applied

    async def _found(self) -> _Found:
        async with self.database.connection() as connection:
            return await _read(connection)

    async def _take_step(self) -> int | None:
        """Returns the version that was reached; None if the database had it before.

        Each step is its own transaction, so that no lock is held for longer than one migration.
        """
        async with self.database.transaction() as connection:
            await connection.execute(_BEGIN)
            found = await _read(connection)
            if found.version == 0:
                await _make(connection)
                reached = RELEASE.version
            elif found.version < RELEASE.version:
                migration = RELEASE.migrations[found.version - 1]
                await self._apply(migration, connection)
                reached = migration.version
            elif found.version == RELEASE.version:
                await _replace(found.changed_functions(), connection)
                return None
            else:
                return None
            if reached == RELEASE.version:
                await _replace(found.changed_functions(), connection, made=found.version == 0)
            await connection.execute(
                "insert into duetime.schema_versions (version, oldest_code) values ($1, $2)", reached, OLDEST_CODE
            )
            return reached

    async def _apply(self, migration: Migration, connection: Connection) -> None:
        if not migration.outside:
            # A script that is only a comment would be an empty query, which the driver does not support.
            await connection.execute(f"select 1;\n{migration.script}", timeout=_SCRIPT_DEADLINE)
            return
        await connection.execute("set local idle_in_transaction_session_timeout = 0")
        outside = await self.database.connect()
        try:
            with self.database.meaning():
                for (name,) in await outside.fetch(_INVALID_INDEXES):
                    if re.search(rf"\b{re.escape(name)}\b", migration.script):
                        await outside.execute(f'drop index concurrently if exists duetime."{name}"', timeout=_LOCK_WAIT)
                for statement in migration.statements:
                    await outside.execute(statement, timeout=_INDEX_DEADLINE)
        finally:
            await outside.close()

    async def check_schema(self) -> int:
        async with self.database.connection() as connection:
            try:
                row = await connection.fetchrow(
                    "select version, oldest_code from duetime.schema_versions order by version desc limit 1"
                )
            except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
                row = None
        if row is None:
            raise SchemaMismatch(
                f"the database {self.database.shown} has no duetime schema", remedy="run: duetime migrate"
            )
        check_versions(found=row[0], oldest_code=row[1], code=RELEASE.version, where=self.database.shown)
        version: int = row[0]
        return version

    async def now(self) -> datetime:
        async with self.database.connection() as connection:
            moment: datetime = await connection.fetchval(SQL["clock"])
            return moment


async def _read(connection: Connection) -> _Found:
    if not await connection.fetchval("select to_regclass('duetime.schema_versions') is not null"):
        return _Found(0, {})
    version: int = await connection.fetchval("select coalesce(max(version), 0) from duetime.schema_versions")
    if version > RELEASE.version:
        return _Found(version, {})
    rows = await connection.fetch("select name, hash from duetime.function_files")
    return _Found(version, {row["name"]: row["hash"] for row in rows})


async def _make(connection: Connection) -> None:
    functions = "\n".join(file.script for file in RELEASE.functions)
    await connection.execute(RELEASE.schema.replace(_FUNCTIONS_HERE, functions), timeout=_SCRIPT_DEADLINE)
    await connection.execute(SQL["set_first_limits"], DEFAULT_TENANT, column_values(FIRST_LIMITS)["quotas"])


async def _replace(files: list[FunctionFile], connection: Connection, *, made: bool = False) -> None:
    if files and not made:
        await connection.execute("\n".join(file.script for file in files), timeout=_SCRIPT_DEADLINE)
    await connection.execute(
        "insert into duetime.function_files (name, hash, version)"
        " select x.name, x.hash, $3 from unnest($1::text[], $2::text[]) as x(name, hash)"
        " on conflict (name) do update set hash = excluded.hash, version = excluded.version",
        [file.name for file in files],
        [file.hash for file in files],
        RELEASE.version,
    )

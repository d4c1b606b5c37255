"""Migrations: forward only, numbered, and safe when two processes run them at once."""

from datetime import datetime
from functools import partial

import asyncpg

from duetime.errors import SchemaMismatch
from duetime.model.job import DEFAULT_TENANT
from duetime.model.tenant import FIRST_LIMITS
from duetime.store.postgres.database import SQL, Connection
from duetime.store.postgres.lock_wait import with_lock_wait
from duetime.store.postgres.partitions import keep_room_ahead
from duetime.store.postgres.role import Role
from duetime.store.rules.quotas import column_values
from duetime.store.shared.schema_version import WITH_LIMITS, check_versions
from duetime.store.shared.statements import Migration, migrations

MIGRATIONS = migrations("duetime.store.postgres")
VERSION = MIGRATIONS[-1].version
# The oldest code (by the schema version it was written for) that still runs on the newest schema.
OLDEST_CODE = 1

_LOCK = "select pg_advisory_xact_lock(hashtextextended('duetime migrate', 0))"
_BEGIN = """
create schema if not exists duetime;
create table if not exists duetime.schema_versions (
    version integer primary key,
    oldest_code integer not null,
    applied_at timestamptz not null default pg_catalog.now()
)"""


class SchemaRole(Role):
    async def migrate(self) -> list[int]:
        applied = []
        for migration in MIGRATIONS:
            what = f"migration {migration.version}"
            if await with_lock_wait(self.database, what, partial(self._apply, migration)):
                applied.append(migration.version)
        await with_lock_wait(self.database, "making room for history", partial(keep_room_ahead, self.database))
        return applied

    async def _apply(self, migration: Migration) -> bool:
        """One transaction each, so that a long list of migrations holds no lock for longer than one of them."""
        async with self.database.transaction() as connection:
            await connection.execute(_LOCK)
            # Waiting for a lock in front of everybody would cost the workers their leases: fail, to be tried again.
            await connection.execute("set local lock_timeout = '3s'")
            await connection.execute(_BEGIN)
            if migration.version <= await _version(connection):
                return False
            await connection.execute("set local statement_timeout = '600s'")
            await connection.execute(migration.script, timeout=600)
            if migration.version == WITH_LIMITS:
                quotas = column_values(FIRST_LIMITS)["quotas"]
                await connection.execute(SQL["set_first_limits"], DEFAULT_TENANT, quotas)
            await connection.execute(
                "insert into duetime.schema_versions (version, oldest_code) values ($1, $2)",
                migration.version,
                OLDEST_CODE,
            )
            return True

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
        check_versions(found=row[0], oldest_code=row[1], code=VERSION, where=self.database.shown)
        version: int = row[0]
        return version

    async def now(self) -> datetime:
        async with self.database.connection() as connection:
            moment: datetime = await connection.fetchval(SQL["clock"])
            return moment


async def _version(connection: Connection) -> int:
    version: int = await connection.fetchval("select coalesce(max(version), 0) from duetime.schema_versions")
    return version

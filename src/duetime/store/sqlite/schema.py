"""Migrations: forward only, numbered, each in one transaction with its version."""

from datetime import datetime
from functools import partial

from duetime.errors import SchemaMismatch
from duetime.model.job import DEFAULT_TENANT
from duetime.model.tenant import FIRST_LIMITS
from duetime.store.rules.quotas import column_values
from duetime.store.shared.schema_version import WITH_LIMITS, check_versions
from duetime.store.shared.statements import Migration, migrations
from duetime.store.sqlite.connection import Connection, split
from duetime.store.sqlite.role import Role

MIGRATIONS = migrations("duetime.store.sqlite")
VERSION = MIGRATIONS[-1].version
# The oldest code (by the schema version it was written for) that still runs on the newest schema.
OLDEST_CODE = 1

_BEGIN = """
create table if not exists schema_versions (
    version integer primary key,
    oldest_code integer not null,
    applied_at integer not null
) strict"""


class SchemaRole(Role):
    async def migrate(self) -> list[int]:
        applied = []
        for migration in MIGRATIONS:
            if await self.database.run(partial(_apply, migration)):
                applied.append(migration.version)
        return applied

    async def check_schema(self) -> int:
        found = await self.database.run(_newest)
        if found is None:
            raise SchemaMismatch(f"the file {self.database.shown} has no duetime schema", remedy="run: duetime migrate")
        version, oldest_code = found
        check_versions(found=version, oldest_code=oldest_code, code=VERSION, where=self.database.shown)
        return version

    async def now(self) -> datetime:
        return self.database.clock.now()


def _apply(migration: Migration, connection: Connection, now: int) -> bool:
    connection.raw.execute(_BEGIN)
    if connection.raw.execute("select 1 from schema_versions where version >= ?", (migration.version,)).fetchone():
        return False
    for statement in split(migration.script):
        connection.raw.execute(statement)
    if migration.version == WITH_LIMITS:
        quotas = column_values(FIRST_LIMITS)["quotas"]
        connection.execute("set_first_limits", {"tenant_id": DEFAULT_TENANT, "quotas": quotas})
    connection.raw.execute("insert into schema_versions values (?, ?, ?)", (migration.version, OLDEST_CODE, now))
    return True


def _newest(connection: Connection, _now: int) -> tuple[int, int] | None:
    if not connection.raw.execute("select 1 from sqlite_master where name = 'schema_versions'").fetchone():
        return None
    found: tuple[int, int] | None = connection.raw.execute(
        "select version, oldest_code from schema_versions order by version desc limit 1"
    ).fetchone()
    return found

"""The schema: a new file gets `schema.sql`, a file of an older release gets the missing migrations in order. Each step
commits together with the version that it reaches."""

from datetime import datetime

from duetime.errors import SchemaMismatch
from duetime.model.job import DEFAULT_TENANT
from duetime.model.tenant import FIRST_LIMITS
from duetime.store.rules.quotas import column_values
from duetime.store.shared.release import load_release
from duetime.store.shared.schema_version import check_versions
from duetime.store.sqlite.connection import Connection, split
from duetime.store.sqlite.role import Role

RELEASE = load_release("duetime.store.sqlite")
VERSION = RELEASE.version
# The oldest code (by the schema version it was written for) that still runs on the newest schema.
OLDEST_CODE = 1


class SchemaRole(Role):
    async def migrate(self) -> list[int]:
        applied = []
        while (reached := await self.database.run(_take_step)) is not None:
            applied.append(reached)
        return applied

    async def check_schema(self) -> int:
        found = await self.database.run(_newest)
        if found is None:
            raise SchemaMismatch(f"the file {self.database.shown} has no duetime schema", remedy="run: duetime migrate")
        version, oldest_code = found
        check_versions(found=version, oldest_code=oldest_code, code=RELEASE.version, where=self.database.shown)
        return version

    async def now(self) -> datetime:
        return self.database.clock.now()


def _take_step(connection: Connection, now: int) -> int | None:
    """Returns the version that was reached; None if the schema is up to date."""
    found = _newest(connection, now)
    if found is None:
        script, reached = RELEASE.schema, RELEASE.version
    elif found[0] < RELEASE.version:
        migration = RELEASE.migrations[found[0] - 1]
        script, reached = migration.script, migration.version
    else:
        return None
    for statement in split(script):
        connection.raw.execute(statement)
    if found is None:
        quotas = column_values(FIRST_LIMITS)["quotas"]
        connection.execute("set_first_limits", {"tenant_id": DEFAULT_TENANT, "quotas": quotas})
    connection.raw.execute("insert into schema_versions values (?, ?, ?)", (reached, OLDEST_CODE, now))
    return reached


def _newest(connection: Connection, _now: int) -> tuple[int, int] | None:
    if not connection.raw.execute("select 1 from sqlite_master where name = 'schema_versions'").fetchone():
        return None
    found: tuple[int, int] | None = connection.raw.execute(
        "select version, oldest_code from schema_versions order by version desc limit 1"
    ).fetchone()
    return found

"""A row of a tenant in every table that can hold one, with a marker in every text and every byte string of it.

What there is to fill is read from the schema, so that a table or column that is added later is filled, too.
"""

import uuid
from datetime import UTC, datetime
from typing import Any

from duetime.store.rules.tenant_tables import TENANT_TABLES
from duetime.store.sqlite import SqliteStore
from duetime.store.sqlite.values import stamp
from tests.contract.worlds import PostgresWorld, World

_LINKS = {
    "cursors": {"job_id": "jobs"},
    "cancels": {"run_id": "runs"},
    "holds": {"limit_id": "limits", "run_id": "runs"},
    "starts": {"limit_id": "limits"},
    "sessions": {"key_id": "api_keys"},
    "login_links": {"key_id": "api_keys"},
}
"""Rows that belong to a tenant through another row."""
_FIRST = ("jobs", "runs", "limits", "api_keys")
_IDS = ("id", "ids", "holder")
_GIVEN: dict[str, Any] = {
    "lanes.awake": False,
    "runs.worker_id": None,
    "runs.lane_id": None,
    "runs.home_lane": 9999,
    "events.place": None,
    "stream_queues.retired": True,
    "stream_queues.changed_at": datetime(2020, 1, 1, tzinfo=UTC),
}
"""What must not be as if it was in use."""


async def plant(world: World, tenant_id: int, marker: str) -> set[str]:
    """Fill the tables; returns which columns hold the marker, as `table.column`."""
    planted: set[str] = set()
    ids: dict[str, Any] = {}
    names = [each.name for each in TENANT_TABLES]
    for table in sorted(names, key=lambda name: (name not in _FIRST, name)):
        row: dict[str, Any] = {}
        for column, kind in (await _columns(world, table)).items():
            link = _LINKS.get(table, {}).get(column)
            if column == "tenant_id":
                row[column] = tenant_id
            elif column == "tenant_ids":
                row[column] = [tenant_id] if isinstance(world, PostgresWorld) else f"[{tenant_id}]"
            elif link is not None:
                row[column] = ids[link]
            elif f"{table}.{column}" in _GIVEN:
                row[column] = _GIVEN[f"{table}.{column}"]
            else:
                is_id = kind == "blob" and (column in _IDS or column.endswith("_id"))
                row[column] = uuid.uuid4().bytes if is_id else _value(kind, marker, world)
                if kind in ("text", "bytea", "blob", "_text", "char") and _holds(row[column], marker):
                    planted.add(f"{table}.{column}")
        ids[table] = await _insert(world, table, row)
    return planted


def _holds(value: Any, marker: str) -> bool:
    return marker in str(value) or (isinstance(value, bytes) and marker.encode() in value)


def _value(kind: str, marker: str, world: World) -> Any:
    text = f"{marker} {uuid.uuid4().hex[:8]}"
    match kind:
        case "text":
            return text
        case "bytea" | "blob":
            return text.encode()
        case "_text":
            return [text]
        case "char":
            return marker[:1]
        case "uuid":
            return uuid.uuid4()
        case "_uuid":
            return [uuid.uuid4()]
        case "bool":
            return False
        case "timestamptz" | "date":
            return world.time.now
        case "_date":
            return []
        case "interval":
            return "1 hour"
        case _:
            return 1


async def _columns(world: World, table: str) -> dict[str, str]:
    """The columns that a row needs, and their types. What the database writes by itself is left out."""
    if isinstance(world, PostgresWorld):
        found = world.database.session().execute(
            "select a.attname, t.typname from pg_attribute a join pg_type t on t.oid = a.atttypid"
            " where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''"
            " and a.attidentity = '' and t.typname <> 'xid8'",
            [f"duetime.{table}"],
        )
        return dict(found.fetchall())
    store = world.store
    assert isinstance(store, SqliteStore)
    rows = await store.database.run(
        lambda connection, _: connection.raw.execute(f"pragma table_xinfo({table})").fetchall()
    )
    return {
        name: kind.lower()
        for _, name, kind, _, _, _, hidden in rows
        if not hidden and not (name == "id" and kind.lower() == "integer")
    }


async def _insert(world: World, table: str, row: dict[str, Any]) -> Any:
    names = ", ".join(f'"{name}"' for name in row)
    key = "id" if table in _FIRST else "1"
    if isinstance(world, PostgresWorld):
        marks = ", ".join(["%s"] * len(row))
        statement = f"insert into duetime.{table} ({names}) values ({marks}) returning {key}"
        return world.database.session().execute(statement.encode(), list(row.values())).fetchall()[0][0]
    store = world.store
    assert isinstance(store, SqliteStore)
    values = [stamp(value) if hasattr(value, "tzinfo") else value for value in row.values()]
    marks = ", ".join("?" * len(row))
    statement = f"insert into {table} ({names}) values ({marks}) returning {key}"
    found: Any = await store.database.run(
        lambda connection, _: connection.raw.execute(statement, values).fetchall()[0][0]
    )
    return found

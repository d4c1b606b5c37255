"""Everything that a tenant owns, as JSON objects in sections: a section for each table, one for its settings, and one
for archived attempts. A section is read in pages, each of which continues from the last key of the one before, so an
export can be interrupted anywhere, and takes little memory however much there is.

Content is decrypted. Values of secrets, and hashes of keys and tokens, are left out.
"""

import asyncio
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from duetime.archive.archive import Archive
from duetime.archive.names import file_path
from duetime.archive.part_reader import PartReader
from duetime.crypto.sealer import Sealer, is_sealed, is_sealed_text
from duetime.errors import Conflict, InvalidInput, NotFound, SealBroken, reason_of
from duetime.ids import Kind, show
from duetime.model.access import Role
from duetime.model.attempt import AttemptState
from duetime.model.defaults import decode_defaults
from duetime.model.failure import FailureClass
from duetime.model.job import JobState
from duetime.model.lane import tier_of
from duetime.model.limits import LimitKind
from duetime.model.run import RunState
from duetime.model.tenant import Tenant
from duetime.store.protocol.store import Store
from duetime.store.rules.seal_owners import CONTENT, content_owner, payload_owner, subscription_owner
from duetime.store.rules.tenant_tables import TENANT_TABLES, Exported

SETTINGS, ARCHIVE = "settings", "archive"
TABLES: Mapping[str, Exported] = {each.name: each.export for each in TENANT_TABLES if isinstance(each.export, Exported)}
SECTIONS = (SETTINGS, *TABLES, ARCHIVE)

_ENOUGH = 2 * 1024**2
"""Bytes of content after which a page ends."""
_ARCHIVED_ROWS = 200
_IDS: Mapping[str, Kind] = {
    "job_id": "job",
    "run_id": "run",
    "parent_id": "job",
    "child_id": "job",
    "key_id": "key",
    "worker_id": "wrk",
    "jobs.id": "job",
    "runs.id": "run",
    "payloads.id": "pay",
    "api_keys.id": "key",
    "sessions.id": "ses",
}
_ENUMS: Mapping[str, Any] = {
    "jobs.state": JobState,
    "nodes.state": RunState,
    "edges.state": RunState,
    "attempt_state": AttemptState,
    "end_state": RunState,
    "api_keys.role": Role,
    "limits.kind": LimitKind,
}
_KEYS = {"i": "idempotency key", "k": "key of a job", "r": "repeated run"}


class ExportPart(NamedTuple):
    items: list[dict[str, Any]]
    after: list[Any] | None
    """Where the next page begins; None: the section ends."""


class Exporter:
    def __init__(self, store: Store, sealer: Sealer, archive: Archive | None) -> None:
        self._store = store
        self._sealer = sealer
        self._archive = archive

    async def page(self, tenant: Tenant, section: str, after: Sequence[Any] | None) -> ExportPart:
        """The next objects of a section. Raises `NotFound`, and `InvalidInput` for a position that is not one."""
        if section == SETTINGS:
            return ExportPart([_settings(tenant)], None)
        if section == ARCHIVE:
            return await self._archived(tenant.id, after)
        table = TABLES.get(section)
        if table is None:
            raise NotFound(f"there is no section {section[:60]!r}", remedy="GET /v1/export lists the sections")
        place = table.first if after is None else _key(table.first, after)
        items: list[dict[str, Any]] = []
        size = 0
        while True:
            rows, last = await self._store.exports.export_rows(tenant.id, table, place)
            await self._sealer.learn(value for row in rows for value in row.values() if isinstance(value, bytes | str))
            for row in rows:
                items.append(self._shown(section, tenant.id, row))
                size += sum(len(value) for value in row.values() if isinstance(value, bytes | str))
            if last is None:
                return ExportPart(items, None)
            place = last
            if size >= _ENOUGH or len(items) >= 1000:
                return ExportPart(items, [part.hex if isinstance(part, UUID) else part for part in last])

    async def _archived(self, tenant_id: int, after: Sequence[Any] | None) -> ExportPart:
        """Attempts of days that the database has removed."""
        first = _key((0, 0, 0), after) if after is not None else (0, 0, 0)
        days = [
            each.day
            for each in await self._store.archives.archive_days()
            if each.removed_at is not None and each.restored_until is None and each.day >= first[0]
        ]
        for day in days:
            parts = await self._store.archives.parts_of_day(day, tenant_id)
            number, start = (first[1], first[2]) if day == first[0] else (0, 0)
            for place in range(number, len(parts)):
                if self._archive is None:
                    raise Conflict("this server has no archive", remedy="set archive_url (DUETIME_ARCHIVE_URL)")
                batches = PartReader(self._archive.storage).batches(parts[place], start, _ARCHIVED_ROWS)
                rows = await asyncio.to_thread(next, batches, None)
                if rows:
                    await self._sealer.learn(
                        value for row in rows for value in row.values() if isinstance(value, bytes | str)
                    )
                    source = {"file": file_path(parts[place])}
                    items = [source | self._shown("history", tenant_id, row) for row in rows]
                    return ExportPart(items, [day, place, start + len(rows)])
                start = 0
        return ExportPart([], None)

    def _shown(self, table: str, tenant_id: int, row: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: self._value(table, name, value, tenant_id, row) for name, value in row.items() if name != "tenant_id"
        }

    def _value(self, table: str, column: str, value: Any, tenant_id: int, row: Mapping[str, Any]) -> Any:
        if value is None:
            return None
        owner = content_owner(CONTENT[column], tenant_id) if column in CONTENT else None
        if (table, column) == ("payloads", "body"):
            owner = payload_owner(tenant_id, row["id"])
        if (table, column) == ("subscriptions", "address"):
            owner = subscription_owner(tenant_id, row["name"])
        if owner is not None:
            try:
                value = self._opened(value, owner)
            except SealBroken as error:
                return {"unreadable": reason_of(error)}
        enum = _ENUMS.get(f"{table}.{column}", _ENUMS.get(column))
        if enum is not None:
            return enum(value).name if value in enum._value2member_map_ else value
        match value:
            case UUID():
                kind = _IDS.get(f"{table}.{column}", _IDS.get(column))
                return str(value) if kind is None else show(kind, value)
            case bytes():
                return {"base64": b64encode(value).decode()} if table == "payloads" else _json(value)
            case datetime():
                return value.isoformat()
            case timedelta():
                return value.total_seconds()
        if column == "tier":
            return tier_of(value).name
        if column == "failure":
            return FailureClass(value).label
        if table == "keys" and column == "kind":
            return _KEYS.get(value if isinstance(value, str) else value.decode(), value)
        return value

    def _opened(self, value: bytes | str, owner: str) -> bytes | str:
        if isinstance(value, str):
            return self._sealer.open_text(value, belongs_to=owner) if is_sealed_text(value) else value
        return self._sealer.open(value, belongs_to=owner) if is_sealed(value) else value


def _settings(tenant: Tenant) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(tenant)
    return {
        "number": found.pop("id"),
        **found,
        "state": tenant.state.name,
        "defaults": decode_defaults(tenant.defaults),
    }


def _json(body: bytes) -> Any:
    """JSON as it is, other bytes as base64."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {"base64": b64encode(body).decode()}
    return msgspec.Raw(body)


def _key(first: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
    """A position that a caller sent back."""
    wrong = InvalidInput("is not a cursor of this section", field="cursor", remedy="start again without a cursor")
    if len(given) != len(first):
        raise wrong
    key: list[Any] = []
    for part, like in zip(given, first, strict=True):
        try:
            if isinstance(like, UUID):
                key.append(UUID(hex=part))
            elif type(part) is type(like) and (isinstance(part, str) or -(2**31) <= part < 2**31):
                key.append(part)
            else:
                raise wrong
        except (ValueError, AttributeError, TypeError):
            raise wrong from None
    return tuple(key)

"""Sources, and how far they were read."""

from datetime import timedelta
from uuid import UUID

from duetime.errors import NotFound
from duetime.model.source import (
    Source,
    SourceProgress,
    StoredSource,
    decode_errors,
    decode_marks,
    decode_source,
    encode_errors,
    encode_marks,
    encode_source,
)
from duetime.store.rules.job_rows import from_row
from duetime.store.shared.transaction import SharedRole


class SourceRole(SharedRole):
    async def put_source(self, tenant_id: int, source: Source, *, paused: bool) -> StoredSource:
        await self.transactions.execute(
            "put_source",
            tenant_id=tenant_id,
            name=source.name,
            body=encode_source(source),
            marks=encode_marks({}),
            errors=encode_errors(()),
            paused=paused,
        )
        return await self.source(tenant_id, source.name)

    async def sources(self, tenant_id: int | None = None, name: str | None = None) -> list[StoredSource]:
        return [
            from_row(
                StoredSource,
                row,
                source=decode_source(row["body"]),
                marks=decode_marks(row["marks"]),
                errors=decode_errors(row["errors"]),
            )
            for row in await self.transactions.rows("list_sources", tenant_id=tenant_id, name=name)
        ]

    async def source(self, tenant_id: int, name: str) -> StoredSource:
        found = await self.sources(tenant_id, name)
        if not found:
            raise _missing(name)
        return found[0]

    async def delete_source(self, tenant_id: int, name: str) -> None:
        if not await self.transactions.execute("delete_source", tenant_id=tenant_id, name=name):
            raise _missing(name)

    async def pause_source(self, tenant_id: int, name: str, *, paused: bool) -> StoredSource:
        if not await self.transactions.execute("pause_source", tenant_id=tenant_id, name=name, paused=paused):
            raise _missing(name)
        return await self.source(tenant_id, name)

    async def take_source(self, source: StoredSource, holder: UUID, period: timedelta) -> dict[str, str] | None:
        wanted = {"tenant_id": source.tenant_id, "name": source.source.name, "version": source.version}
        marks: bytes | None = await self.transactions.value("take_source", **wanted, holder=holder, period=period)
        return None if marks is None else decode_marks(marks)

    async def keep_source(
        self, source: StoredSource, holder: UUID, period: timedelta, progress: SourceProgress
    ) -> bool:
        kept = await self.transactions.execute(
            "keep_source",
            tenant_id=source.tenant_id,
            name=source.source.name,
            version=source.version,
            holder=holder,
            period=period,
            marks=encode_marks(progress.marks),
            received=progress.received,
            made=progress.made,
            repeated=progress.repeated,
            bad=progress.bad,
            errors=encode_errors(progress.errors) if progress.errors else None,
            reason=progress.reason,
            stopped=progress.stopped,
        )
        return kept > 0

    async def release_source(self, source: StoredSource, holder: UUID) -> None:
        await self.transactions.execute(
            "release_source", tenant_id=source.tenant_id, name=source.source.name, holder=holder
        )


def _missing(name: str) -> NotFound:
    return NotFound(f"there is no source {name!r}", field="source", remedy="GET /v1/sources lists them")

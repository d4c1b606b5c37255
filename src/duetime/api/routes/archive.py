"""Archived history: what there is, its runs, and how it comes back."""

from datetime import timedelta
from uuid import UUID

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.api.run_views import run_summary
from duetime.archive.archive import Archive
from duetime.archive.names import date_of, read_day
from duetime.clock import monotonic
from duetime.errors import Conflict, InvalidInput
from duetime.model.access import Action
from duetime.spec.kinds import read_duration
from duetime.wire.archive import (
    ArchivedDay,
    ArchivedRunsQuery,
    ArchivePage,
    ArchiveState,
    ArchiveStatus,
    Erased,
    RestoreAnswer,
    RestoreRequest,
)
from duetime.wire.fields import PageQuery
from duetime.wire.runs import RunPage

routes = Routes("Archive")

_LONGEST = 1.0
"""Seconds that a restore may take in one request."""
_LONGEST_KEPT = timedelta(days=365)
_SHOWN_DAYS = 100
_LAST = 2**31 - 1


@routes.get("/v1/archive", Action.READ, query=PageQuery, answer=ArchivePage)
async def list_archive(call: Call) -> ArchivePage:
    """List the archived days of the tenant, newest first."""
    start = await call.page_start()
    size = call.query.page_size
    before = _LAST if start is None else start.int
    found = await call.service.store.archives.tenant_days(call.tenant_id, before, size + 1)
    tenant = await call.service.store.tenants.tenant_by_id(call.tenant_id)
    items = tuple(
        ArchivedDay(
            tenant=tenant.name,
            day=date_of(each.day),
            rows=each.rows,
            bytes=each.bytes,
            files=each.files,
            expires=date_of(each.expires),
        )
        for each in found[:size]
    )
    more = UUID(int=found[size - 1].day) if len(found) > size else None
    return ArchivePage(items, await call.next_cursor(more))


@routes.get("/v1/archive/{day}/runs", Action.READ, query=ArchivedRunsQuery, answer=RunPage, problems=(409,))
async def list_archived_runs(call: Call) -> RunPage:
    """List the runs that ended on an archived day, newest first, as the files have them."""
    archive, day = _archive(call), read_day(call.path["day"])
    page = await archive.runs_of_day(call.tenant_id, day, await call.page_start(), call.query.page_size)
    items = tuple(run_summary(run) for run in page.items)
    return RunPage(items, await call.next_cursor(page.next), archived=page.archived)


@routes.post(
    "/v1/archive/{day}/restore",
    Action.CONTROL,
    body=RestoreRequest,
    body_optional=True,
    answer=RestoreAnswer,
    problems=(409,),
)
async def restore_archive(call: Call) -> RestoreAnswer:
    """Put the tenant's rows of an archived day back into the database, a part at a time. Repeat with `next_cursor`."""
    archive, day, request = _archive(call), read_day(call.path["day"]), call.body
    keep = read_duration(request.keep, "keep")
    if not timedelta(0) < keep <= _LONGEST_KEPT:
        raise InvalidInput("must be above zero and at most 365d", field="keep")
    until = await call.service.store.now() + keep
    end = monotonic() + _LONGEST
    step = await archive.restore(
        day, call.tenant_id, until, _read_place(request.cursor), most=lambda: monotonic() > end
    )
    if request.cursor is None:
        await call.act("archive.restore", date_of(day).isoformat())
    return RestoreAnswer(step.rows, None if step.after is None else f"{step.after[0]}.{step.after[1]}")


@routes.get("/v1/admin/archive", Action.MANAGE_TENANTS, answer=ArchiveStatus)
async def get_archive(call: Call) -> ArchiveStatus:
    """Read the state of the archive over all tenants."""
    return await _status(call)


@routes.action("/v1/admin/archive/run", Action.MANAGE_TENANTS, answer=ArchiveStatus, problems=(409,))
async def run_archive(call: Call) -> ArchiveStatus:
    """Archive all ended days now, in the background. The answer, and `GET`, say how far it is."""
    _archive(call)
    assert call.service.archive_runs is not None
    if call.service.archive_runs.start():
        await call.act("archive.run", "archive", in_tenant=False)
    return await _status(call)


@routes.action("/v1/admin/archive/stop", Action.MANAGE_TENANTS, answer=ArchiveStatus)
async def stop_archive(call: Call) -> ArchiveStatus:
    """Let the database remove history without archiving it. Servers with an archive turn this on again."""
    await call.service.store.archives.use_archive(used=False)
    await call.act("archive.stop", "archive", in_tenant=False)
    return await _status(call)


@routes.delete("/v1/archive", Action.ERASE, answer=Erased, problems=(409,))
async def erase_archive(call: Call) -> Erased:
    """Delete all archived history of the tenant."""
    files = await _archive(call).erase(call.tenant_id)
    await call.act("archive.erase", "archive", f"{files} files")
    return Erased(files)


def _archive(call: Call) -> Archive:
    archive = call.service.archive
    if archive is None:
        raise Conflict("this server has no archive", remedy="set archive_url (DUETIME_ARCHIVE_URL)")
    return archive


def _read_place(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return 0, 0
    number, _, row = cursor.partition(".")
    if not (number.isascii() and number.isdigit() and row.isascii() and row.isdigit()) or len(cursor) > 30:
        raise InvalidInput("is not a cursor of this request", field="cursor", remedy="start again without a cursor")
    return int(number), int(row)


async def _status(call: Call) -> ArchiveStatus:
    service = call.service
    archives = service.store.archives
    waiting = () if service.archive is None else await service.archive.days_to_write(await service.store.now())
    runs = service.archive_runs
    return ArchiveStatus(
        url=None if service.archive is None else service.archive.storage.shown,
        used=await archives.uses_archive(),
        waiting=tuple(date_of(day) for day in waiting),
        running=runs is not None and runs.running,
        rows=0 if runs is None else runs.rows,
        problem=None if runs is None else runs.problem,
        days=tuple(
            ArchiveState(
                day=date_of(each.day),
                rows=each.rows,
                archived_at=each.archived_at,
                removed_at=each.removed_at,
                restored_until=each.restored_until,
                problem=each.problem,
            )
            for each in (await archives.archive_days())[-_SHOWN_DAYS:][::-1]
        ),
    )

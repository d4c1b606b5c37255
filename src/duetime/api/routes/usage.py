"""What tenants have used, for bills and for capacity."""

import csv
import io
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, date, timedelta
from uuid import UUID

from duetime.api.call import Call
from duetime.api.endpoint import Reply, Routes, Stream
from duetime.errors import InvalidInput
from duetime.model.access import Action
from duetime.model.job import INTERNAL_TENANT
from duetime.model.structs import struct_like
from duetime.model.usage import Usage
from duetime.wire.usage import AllUsageQuery, UsageList, UsagePage, UsageQuery, UsageView

routes = Routes("Usage")

CSV = "text/csv; charset=utf-8"
_COLUMNS = UsageView.__struct_fields__
_LONGEST = {"day": 3660, "queue": 31}
_MANY = 1000
_FIRST = (INTERNAL_TENANT, 2**31 - 1)
"""Above what the service itself has used."""


@routes.get("/v1/usage", Action.READ, query=UsageQuery, answer=UsageList)
async def get_usage(call: Call) -> UsageList | Reply:
    """Read what the tenant has used by day, or by day and queue."""
    query: UsageQuery = call.query
    first, last = await _days(call, query.start_day, query.end_day, _LONGEST[query.by])
    store = call.service.store
    found = await store.usage_counts.usage_of(call.tenant_id, first, last, by_queue=query.by == "queue")
    name = (await call.tenant()).name
    views = [_view(each, name) for each in found]
    if query.format == "csv":
        return Reply(content=(_line(_COLUMNS) + _lines(views)).encode(), media=CSV)
    return UsageList(tuple(views), await store.usage_counts.counted_until())


@routes.get("/v1/admin/usage", Action.MANAGE_TENANTS, query=AllUsageQuery, answer=UsagePage)
async def list_usage(call: Call) -> UsagePage | Stream:
    """Read what all tenants have used, by tenant and day."""
    query: AllUsageQuery = call.query
    days = await _days(call, query.start_day, query.end_day, _LONGEST["day"])
    if query.format == "csv":
        return Stream(_all_lines(call, days), CSV)
    start = await call.page_start()
    after = _FIRST if start is None else (start.int >> 64, start.int & (2**64 - 1))
    found = await call.service.store.usage_counts.usage_of_all(*days, after, query.page_size)
    place = UUID(int=_place(found[-1])) if len(found) == query.page_size else None
    names = await _names(call, found)
    return UsagePage(
        tuple(_view(each, names[each.tenant_id]) for each in found),
        await call.service.store.usage_counts.counted_until(),
        await call.next_cursor(place),
    )


async def _all_lines(call: Call, days: tuple[date, date]) -> AsyncIterator[bytes]:
    yield _line(_COLUMNS).encode()
    after = _FIRST
    while found := await call.service.store.usage_counts.usage_of_all(*days, after, _MANY):
        names = await _names(call, found)
        yield _lines(_view(each, names[each.tenant_id]) for each in found).encode()
        after = found[-1].tenant_id, _day(found[-1])


async def _days(call: Call, first: date | None, last: date | None, most: int) -> tuple[date, date]:
    today = (await call.service.store.now()).astimezone(UTC).date()
    last = last or today
    first = first or last.replace(day=1)
    if last < first:
        raise InvalidInput("is before start_day", field="end_day", remedy="give a later day")
    if last - first >= timedelta(days=most):
        raise InvalidInput(f"is more than {most} days after start_day", field="end_day", remedy="ask for fewer days")
    return first, last


async def _names(call: Call, found: Iterable[Usage]) -> Mapping[int, str]:
    """The names of tenants; one that was just erased has none any more."""
    names: dict[int, str] = {}
    for tenant_id in {each.tenant_id for each in found}:
        (tenant,) = await call.service.store.tenants.tenants(tenant_id - 1, 1) or (None,)
        names[tenant_id] = tenant.name if tenant is not None and tenant.id == tenant_id else f"tenant {tenant_id}"
    return names


def _place(last: Usage) -> int:
    return last.tenant_id << 64 | _day(last)


def _day(usage: Usage) -> int:
    return (usage.day - date(1970, 1, 1)).days


def _view(usage: Usage, tenant: str) -> UsageView:
    return struct_like(UsageView, usage, tenant=tenant)


def _lines(views: Iterable[UsageView]) -> str:
    return "".join(_line([getattr(view, name) for name in _COLUMNS]) for view in views)


def _line(values: Iterable[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(
        [str(value).lower() if isinstance(value, bool) else value for value in values]
    )
    return text.getvalue()

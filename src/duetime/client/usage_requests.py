"""Requests about what tenants have used."""

from datetime import date

from duetime.client.request import Request, given
from duetime.wire.usage import UsageList, UsagePage


def get_usage(
    *, start_day: date | str | None = None, end_day: date | str | None = None, by: str | None = None
) -> Request[UsageList]:
    """What the tenant has used: `by` "day" or "queue"."""
    return Request("GET", "/v1/usage", UsageList, given(start_day=_day(start_day), end_day=_day(end_day), by=by))


def list_usage(
    *,
    start_day: date | str | None = None,
    end_day: date | str | None = None,
    page_size: int | None = None,
    cursor: str | None = None,
) -> Request[UsagePage]:
    """A page of what all tenants have used, by tenant and day."""
    days = {"start_day": _day(start_day), "end_day": _day(end_day)}
    return Request("GET", "/v1/admin/usage", UsagePage, given(**days, page_size=page_size, cursor=cursor))


def _day(given: date | str | None) -> str | None:
    return None if given is None else str(given)

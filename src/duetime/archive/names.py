"""The paths of files: by tenant, so that a tenant's files can be deleted together, then by day.

`tenant=…/day=…` is the form from which DuckDB, Spark and others read columns.
"""

from datetime import date, timedelta

from duetime.errors import InvalidInput
from duetime.store.protocol.archives import ArchivePart

_FIRST = date(1970, 1, 1)
MANIFEST = "manifest.json"


def tenant_folder(tenant_id: int) -> str:
    return f"tenant={tenant_id}"


def day_folder(tenant_id: int, day: int) -> str:
    return f"{tenant_folder(tenant_id)}/day={date_of(day)}"


def file_path(part: ArchivePart) -> str:
    return f"{day_folder(part.tenant_id, part.day)}/{part.name}"


def manifest_path(tenant_id: int, day: int) -> str:
    return f"{day_folder(tenant_id, day)}/{MANIFEST}"


def date_of(day: int) -> date:
    return _FIRST + timedelta(days=day)


def day_of(given: date) -> int:
    return (given - _FIRST).days


def read_day(text: str) -> int:
    try:
        return day_of(date.fromisoformat(text))
    except ValueError:
        raise InvalidInput("is not a day", field="day", remedy="such as 2027-01-31") from None

"""Requests about the archive of history."""

from datetime import date

from duetime.client.request import Ask, given, path
from duetime.wire.archive import ArchivePage, ArchiveStatus, Erased, RestoreAnswer
from duetime.wire.runs import RunPage


def list_archive(*, page_size: int | None = None, cursor: str | None = None) -> Ask[ArchivePage]:
    """A page of the archived days of the tenant, newest first."""
    return Ask("GET", "/v1/archive", ArchivePage, given(page_size=page_size, cursor=cursor))


def list_archived_runs(day: date | str, *, page_size: int | None = None, cursor: str | None = None) -> Ask[RunPage]:
    """A page of the runs that ended on an archived day, newest first."""
    return Ask("GET", path("/v1/archive/{}/runs", str(day)), RunPage, given(page_size=page_size, cursor=cursor))


def restore_archive(day: date | str, *, keep: str = "7d", cursor: str | None = None) -> Ask[RestoreAnswer]:
    """Put a part of an archived day back into the database. Repeat with `next_cursor` until it is None."""
    body = {"keep": keep, "cursor": cursor}
    return Ask("POST", path("/v1/archive/{}/restore", str(day)), RestoreAnswer, body=body)


def erase_archive() -> Ask[Erased]:
    """Delete all archived history of the tenant."""
    return Ask("DELETE", "/v1/archive", Erased)


def get_archive() -> Ask[ArchiveStatus]:
    """The state of the archive over all tenants."""
    return Ask("GET", "/v1/admin/archive", ArchiveStatus)


def run_archive() -> Ask[ArchiveStatus]:
    """Archive all ended days now, in the background of the server."""
    return Ask("POST", "/v1/admin/archive/run", ArchiveStatus)


def stop_archive() -> Ask[ArchiveStatus]:
    """Let the database remove history without archiving it."""
    return Ask("POST", "/v1/admin/archive/stop", ArchiveStatus)

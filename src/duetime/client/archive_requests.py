"""Requests about the archive of history."""

from datetime import date

from duetime.client.request import Request, given, path
from duetime.wire.archive import ArchivePage, ArchiveStatus, Erased, RestoreAnswer
from duetime.wire.runs import RunPage


def list_archive(*, page_size: int | None = None, cursor: str | None = None) -> Request[ArchivePage]:
    """A page of the archived days of the tenant, newest first."""
    return Request("GET", "/v1/archive", ArchivePage, given(page_size=page_size, cursor=cursor))


def list_archived_runs(day: date | str, *, page_size: int | None = None, cursor: str | None = None) -> Request[RunPage]:
    """A page of the runs that ended on an archived day, newest first."""
    return Request("GET", path("/v1/archive/{}/runs", str(day)), RunPage, given(page_size=page_size, cursor=cursor))


def restore_archive(day: date | str, *, keep: str = "7d", cursor: str | None = None) -> Request[RestoreAnswer]:
    """Put a part of an archived day back into the database. Repeat with `next_cursor` until it is None."""
    body = {"keep": keep, "cursor": cursor}
    return Request("POST", path("/v1/archive/{}/restore", str(day)), RestoreAnswer, body=body)


def erase_archive() -> Request[Erased]:
    """Delete all archived history of the tenant."""
    return Request("DELETE", "/v1/archive", Erased)


def get_archive() -> Request[ArchiveStatus]:
    """The state of the archive over all tenants."""
    return Request("GET", "/v1/admin/archive", ArchiveStatus)


def run_archive() -> Request[ArchiveStatus]:
    """Archive all ended days now, in the background of the server."""
    return Request("POST", "/v1/admin/archive/run", ArchiveStatus)


def stop_archive() -> Request[ArchiveStatus]:
    """Let the database remove history without archiving it."""
    return Request("POST", "/v1/admin/archive/stop", ArchiveStatus)

"""Requests about the export of a tenant."""

from duetime.client.request import Ask, given, path
from duetime.wire.export import ExportPage, ExportPlan


def begin_export() -> Ask[ExportPlan]:
    """Begin an export of everything that the tenant owns."""
    return Ask("POST", "/v1/export", ExportPlan)


def export_section(section: str, *, cursor: str | None = None) -> Ask[ExportPage]:
    """A page of a section of the export."""
    return Ask("GET", path("/v1/export/{}", section), ExportPage, given(cursor=cursor), timeout=120.0)

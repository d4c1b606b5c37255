"""Requests about the export of a tenant."""

from duetime.client.request import Request, given, path
from duetime.wire.export import ExportPage, ExportPlan


def begin_export() -> Request[ExportPlan]:
    """Begin an export of everything that the tenant owns."""
    return Request("POST", "/v1/export", ExportPlan)


def export_section(section: str, *, cursor: str | None = None) -> Request[ExportPage]:
    """A page of a section of the export."""
    return Request("GET", path("/v1/export/{}", section), ExportPage, given(cursor=cursor), timeout=120.0)

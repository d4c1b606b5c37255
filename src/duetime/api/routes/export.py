"""Everything that a tenant owns, to be written to files."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import msgspec

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.engine.exporter import SECTIONS, Exporter
from duetime.errors import InvalidInput
from duetime.model.access import Action
from duetime.wire.export import ExportPage, ExportPlan, ExportQuery

routes = Routes("Export")
_places = msgspec.json.Decoder(list[str | int])


@routes.action("/v1/export", Action.EXPORT, answer=ExportPlan, repeats="by nature")
async def begin_export(call: Call) -> ExportPlan:
    """Begin an export of everything that the tenant owns: the answer names its sections."""
    tenant = await call.service.store.tenants.tenant_by_id(call.tenant_id)
    await call.act("tenants.export", tenant.name)
    return ExportPlan(tenant.name, tenant.id, await call.service.store.now(), SECTIONS)


@routes.get("/v1/export/{section}", Action.EXPORT, query=ExportQuery, answer=ExportPage, problems=(404, 409))
async def export_section(call: Call) -> ExportPage:
    """Read the next objects of a section of the export. Repeat with `next_cursor` until it is null."""
    service = call.service
    tenant = await service.store.tenants.tenant_by_id(call.tenant_id)
    exporter = Exporter(service.store, service.sealer, service.archive)
    part = await exporter.page(tenant, call.path["section"], _read(call.query.cursor))
    return ExportPage(tuple(part.items), _written(part.after))


def _read(cursor: str | None) -> list[Any] | None:
    if cursor is None:
        return None
    try:
        return _places.decode(urlsafe_b64decode(cursor.encode("ascii")))
    except (ValueError, msgspec.MsgspecError):
        raise InvalidInput(
            "is not a cursor of this section", field="cursor", remedy="start again without a cursor"
        ) from None


def _written(after: list[Any] | None) -> str | None:
    return None if after is None else urlsafe_b64encode(msgspec.json.encode(after)).decode()

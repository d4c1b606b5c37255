"""The deletion of tenants, for operators with a root key."""

from datetime import timedelta
from typing import cast
from uuid import UUID

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.api.routes.tenants import tenant_view
from duetime.errors import InvalidInput, NotFound
from duetime.model.access import Action
from duetime.model.erasure import Erasure, ErasureStep, name_hash
from duetime.spec.kinds import read_duration
from duetime.store.rules.tenant_tables import TENANT_TABLES
from duetime.wire.admin import TenantView
from duetime.wire.erasures import DeletionRequest, ErasurePage, ErasureQuery, ErasureStatus, ErasureView

routes = Routes("Administration")

_LONGEST = timedelta(days=365)


@routes.post(
    "/v1/admin/tenants/{tenant}/delete",
    Action.MANAGE_TENANTS,
    body=DeletionRequest,
    answer=ErasureView,
    status=202,
    problems=(409,),
)
async def delete_tenant(call: Call) -> ErasureView:
    """Delete a tenant and everything that it owns, after a time in which that can be taken back."""
    request: DeletionRequest = call.body
    grace = read_duration(request.grace, "grace")
    if grace > _LONGEST:
        raise InvalidInput("is too long", field="grace", remedy="at most 365 days")
    tenant = await call.service.store.tenants.tenant(call.path["tenant"])
    if request.confirm != tenant.name:
        raise InvalidInput(
            "is not the name of the tenant", field="confirm", remedy="write the name of the tenant to delete it"
        )
    planned = await call.service.store.erasures.plan_erasure(tenant.id, grace, call.who.name, call.who.key_id)
    call.service.gate.forget()
    await call.act("tenants.delete", f"tenant {tenant.id}", in_tenant=False)
    return await _view(call, planned)


@routes.action("/v1/admin/tenants/{tenant}/undelete", Action.MANAGE_TENANTS, answer=TenantView, problems=(409,))
async def undelete_tenant(call: Call) -> TenantView:
    """Take back the deletion of a tenant, while it has not begun."""
    tenant = await call.service.store.tenants.tenant(call.path["tenant"])
    await call.service.store.erasures.withdraw_erasure(tenant.id)
    call.service.gate.forget()
    await call.act("tenants.undelete", f"tenant {tenant.id}", in_tenant=False)
    return tenant_view(await call.service.store.tenants.tenant_by_id(tenant.id))


@routes.get("/v1/admin/erasures", Action.MANAGE_TENANTS, query=ErasureQuery, answer=ErasurePage)
async def list_erasures(call: Call) -> ErasurePage:
    """List the tenants that are to be erased, are being erased, or were erased, newest number first."""
    size = call.query.page_size
    start = await call.page_start()
    found = await call.service.store.erasures.erasures(None, None if start is None else start.int, size)
    place = UUID(int=found[-1].tenant_id) if len(found) == size else None
    if call.query.name:
        found = [each for each in found if each.name_hash == name_hash(each.tenant_id, call.query.name)]
    return ErasurePage(tuple([await _view(call, each) for each in found]), await call.next_cursor(place))


@routes.get("/v1/admin/erasures/{number}", Action.MANAGE_TENANTS, answer=ErasureView)
async def get_erasure(call: Call) -> ErasureView:
    """Read how far the erasure of a tenant is, and what was removed."""
    given = call.path["number"]
    number = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0
    found = await call.service.store.erasures.erasures(number)
    if not found:
        raise NotFound(f"no tenant {given[:60]!r} was deleted", remedy="GET /v1/admin/erasures lists them")
    return await _view(call, found[0])


async def _view(call: Call, erasure: Erasure) -> ErasureView:
    name: str | None = None
    if erasure.step < ErasureStep.COMPACTING:
        try:
            name = (await call.service.store.tenants.tenant_by_id(erasure.tenant_id)).name
        except NotFound:
            name = None  # it was erased in this moment
    removing = erasure.step is ErasureStep.REMOVING and erasure.progress.table < len(TENANT_TABLES)
    return ErasureView(
        number=erasure.tenant_id,
        tenant=name,
        status=cast(ErasureStatus, erasure.step.name),
        requested_at=erasure.requested_at,
        requested_by=erasure.requested_by,
        erase_at=erasure.erase_at,
        started_at=erasure.started_at,
        finished_at=erasure.finished_at,
        removed=dict(sorted(erasure.removed.items())),
        table=TENANT_TABLES[erasure.progress.table].name if removing else None,
        passes=erasure.progress.passes,
        problem=erasure.problem,
    )

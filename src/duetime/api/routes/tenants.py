"""Tenants, for operators with a root key."""

from uuid import UUID

import msgspec

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.api.routes.defaults import defaults_view
from duetime.errors import Conflict, NotFound
from duetime.model.access import Action
from duetime.model.structs import struct_like
from duetime.model.tenant import DEFAULT_LIMITS, NewTenant, Tenant, TenantChange, TenantLimits, TenantState
from duetime.wire.admin import LimitsBody, TenantPage, TenantPatch, TenantRequest, TenantView
from duetime.wire.fields import PageQuery

routes = Routes("Administration")


@routes.get("/v1/admin/tenants", Action.MANAGE_TENANTS, query=PageQuery, answer=TenantPage)
async def list_tenants(call: Call) -> TenantPage:
    """List the tenants, oldest first."""
    size = call.query.page_size
    after = await call.page_start()
    found = await call.service.store.tenants.tenants(0 if after is None else after.int, size)
    place = UUID(int=found[-1].id) if len(found) == size else None
    return TenantPage(tuple(tenant_view(tenant) for tenant in found), await call.next_cursor(place))


@routes.post(
    "/v1/admin/tenants",
    Action.MANAGE_TENANTS,
    body=TenantRequest,
    answer=TenantView,
    status=201,
    problems=(409,),
)
async def create_tenant(call: Call) -> TenantView:
    """Create a tenant."""
    request = call.body
    if request.encrypt_args:
        await call.service.sealer.ready()
    limits = _limits(DEFAULT_LIMITS, request.limits)
    tenant = await call.service.store.tenants.create_tenant(
        NewTenant(request.name, request.tier, request.weight, limits, request.encrypt_args)
    )
    await call.act("tenants.create", tenant.name, in_tenant=tenant.id)
    return tenant_view(tenant)


@routes.get("/v1/admin/tenants/{tenant}", Action.MANAGE_TENANTS, answer=TenantView)
async def get_tenant(call: Call) -> TenantView:
    """Read a tenant."""
    return tenant_view(await _found(call))


@routes.patch("/v1/admin/tenants/{tenant}", Action.MANAGE_TENANTS, body=TenantPatch, answer=TenantView, problems=(409,))
async def change_tenant(call: Call) -> TenantView:
    """Change, suspend or reactivate a tenant."""
    given = {name: value for name, value in msgspec.structs.asdict(call.body).items() if value is not msgspec.UNSET}
    names = ", ".join(given)
    if given.get("encrypt_args"):
        await call.service.sealer.ready()
    if "state" in given:
        given["state"] = TenantState[given["state"]]
    found = await _found(call)
    if "state" in given and found.state is TenantState.DELETING:
        raise Conflict(
            "the tenant is scheduled for deletion: undelete it first",
            field="state",
            remedy=f"POST /v1/admin/tenants/{found.name}/undelete",
        )
    if "limits" in given:
        given["limits"] = _limits(found.limits, given["limits"])
    tenant = await call.service.store.tenants.update_tenant(found.id, TenantChange(**given))
    call.service.gate.forget()
    await call.act("tenants.change", tenant.name, names or None, in_tenant=tenant.id)
    return tenant_view(tenant)


async def _found(call: Call) -> Tenant:
    name = call.path["tenant"]
    if not name.isprintable():
        raise NotFound("the tenant does not exist")
    return await call.service.store.tenants.tenant(name)


def _limits(before: TenantLimits, given: LimitsBody) -> TenantLimits:
    said = {name: value for name, value in msgspec.structs.asdict(given).items() if value is not msgspec.UNSET}
    return msgspec.structs.replace(before, **said)


def tenant_view(tenant: Tenant) -> TenantView:
    return struct_like(
        TenantView,
        tenant,
        number=tenant.id,
        state=tenant.state.name,
        limits=struct_like(LimitsBody, tenant.limits),
        defaults=defaults_view(tenant),
    )

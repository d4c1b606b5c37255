"""The default options of a tenant's jobs, for its admins."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.model.access import Action
from duetime.model.defaults import Defaults, decode_defaults
from duetime.model.tenant import Tenant
from duetime.spec.derived import OF_TENANTS
from duetime.spec.resolved import tenant_base, written_defaults
from duetime.wire.admin import DefaultsPatch, TenantDefaults

routes = Routes("Defaults")


@routes.get("/v1/defaults", Action.READ, answer=TenantDefaults)
async def get_defaults(call: Call) -> TenantDefaults:
    """Read the default options of the tenant's jobs."""
    return defaults_view(await call.service.store.tenants.tenant_by_id(call.tenant_id))


@routes.put("/v1/defaults", Action.MANAGE_DEFAULTS, body=TenantDefaults, answer=TenantDefaults)
async def set_defaults(call: Call) -> TenantDefaults:
    """Replace the default options of the tenant's jobs. Stored jobs keep their options."""
    return await _change(call, "defaults.set", replace=True)


@routes.patch("/v1/defaults", Action.MANAGE_DEFAULTS, body=DefaultsPatch, answer=TenantDefaults)
async def change_defaults(call: Call) -> TenantDefaults:
    """Change some default options of the tenant's jobs; null removes one. Stored jobs keep their options."""
    return await _change(call, "defaults.change", replace=False)


async def _change(call: Call, action: str, *, replace: bool) -> TenantDefaults:
    given = {name: value for name, value in msgspec.structs.asdict(call.body).items() if value is not UNSET}

    def changed(before: Defaults) -> Defaults:
        return _checked({**({} if replace else decode_defaults(before)), **given})

    tenant = await call.service.store.tenants.change_defaults(call.tenant_id, changed)
    call.service.gate.forget()
    named = ", ".join(name for name, value in given.items() if value is not None or not replace)
    await call.act(action, tenant.name, named or None)
    return defaults_view(tenant)


def _checked(given: Mapping[str, Any]) -> Defaults:
    tenant_base({name: value for name, value in given.items() if value is not None})
    return written_defaults(given)


def defaults_view(tenant: Tenant) -> TenantDefaults:
    known = {name: value for name, value in decode_defaults(tenant.defaults).items() if name in OF_TENANTS}
    try:
        return msgspec.convert(known, TenantDefaults)
    except msgspec.ValidationError:
        return TenantDefaults()  # a newer release has stored them: here they do not apply either

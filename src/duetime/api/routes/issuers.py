"""Issuers: who signs tokens for the users of a tenant."""

from typing import Any

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.crypto.signed_tokens import key_set_of, keys_in
from duetime.errors import InvalidInput
from duetime.model.access import Action, Role
from duetime.model.issuer import (
    AUDIENCE,
    Issuer,
    StoredIssuer,
    check_algorithms,
    check_claim,
    check_issuer_url,
    check_lifetime,
    check_role,
)
from duetime.model.name import check_name
from duetime.model.structs import struct_like
from duetime.spec.kinds import read_duration
from duetime.targets.address_guard import AddressGuard
from duetime.targets.url import check_url
from duetime.wire.issuers import IssuerList, IssuerRequest, IssuerView
from duetime.wire.jobs import Deleted

routes = Routes("Issuers")


@routes.get("/v1/issuers", Action.MANAGE_KEYS, answer=IssuerList)
async def list_issuers(call: Call) -> IssuerList:
    """List the issuers of tokens for the users of the tenant."""
    return IssuerList(tuple(_view(each) for each in await call.store.issuers.issuers(call.tenant_id)))


@routes.get("/v1/issuers/{issuer}", Action.MANAGE_KEYS, answer=IssuerView)
async def get_issuer(call: Call) -> IssuerView:
    """Read an issuer."""
    return _view(await call.store.issuers.issuer(call.tenant_id, call.path["issuer"]))


@routes.put("/v1/issuers/{issuer}", Action.MANAGE_KEYS, body=IssuerRequest, answer=IssuerView)
async def put_issuer(call: Call) -> IssuerView:
    """Create or replace an issuer: its tokens let users see and control their own jobs."""
    request: IssuerRequest = call.body
    tenant = await call.tenant()
    issuer = Issuer(
        name=check_name(call.path["issuer"], "issuer"),
        issuer=check_issuer_url(request.issuer, "issuer"),
        audience=_audience(request.audience, tenant.name),
        role=check_role(Role[request.role.upper()], "role"),
        owner_claim=check_claim(request.owner_claim, "owner_claim"),
        algorithms=check_algorithms(request.algorithms, "algorithms"),
        max_lifetime=check_lifetime(read_duration(request.max_lifetime, "max_lifetime"), "max_lifetime"),
        tag=request.tag,
        queue=request.queue,
        expires_at=call.who.expires_at,
        networks=call.who.networks,
        **_keys(request, call.service.targets.guard),
    )
    stored = await call.store.issuers.put_issuer(call.tenant_id, issuer)
    call.service.gate.forget()
    await call.act("issuers.set", issuer.name, f"{issuer.issuer} {request.role}")
    return _view(stored)


@routes.delete("/v1/issuers/{issuer}", Action.MANAGE_KEYS, ends_access=True, answer=Deleted)
async def delete_issuer(call: Call) -> Deleted:
    """Delete an issuer. Its tokens stop at once on this server, within seconds on others."""
    name = call.path["issuer"]
    await call.store.issuers.delete_issuer(call.tenant_id, name)
    call.service.gate.forget()
    await call.act("issuers.delete", name)
    return Deleted()


def _audience(given: str | None, tenant: str) -> str:
    own = f"{AUDIENCE}{tenant}"
    if given is not None and given.startswith(AUDIENCE) and given != own:
        raise InvalidInput("names another tenant", field="audience", remedy=f"omit it: {own}")
    return own if given is None else check_issuer_url(given, "audience")


def _keys(request: IssuerRequest, guard: AddressGuard) -> dict[str, Any]:
    """The keys of an issuer, in the one form that is given."""
    given = [name for name in ("jwks", "jwks_url", "public_key") if getattr(request, name) is not None]
    if len(given) != 1:
        raise InvalidInput(
            "one of jwks, jwks_url and public_key is required", field=given[1] if given else "jwks", remedy="give one"
        )
    if request.jwks_url is not None:
        https = request.jwks_url.lower().startswith("https:")
        check_url(request.jwks_url, guard if https else guard.only_allowed(), "jwks_url")
        return {"jwks_url": request.jwks_url}
    if request.public_key is not None:
        return {"jwks": key_set_of(request.public_key)}
    keys = keys_in(request.jwks)
    if not any(set(each.algorithms) & set(request.algorithms) for each in keys):
        raise InvalidInput("has no key for these algorithms", field="jwks", remedy="name its algorithm in algorithms")
    return {"jwks": request.jwks}


def _view(stored: StoredIssuer) -> IssuerView:
    issuer = stored.issuer
    times = {"created_at": stored.created_at, "changed_at": stored.changed_at}
    return struct_like(IssuerView, issuer, role=issuer.role.name.lower(), **times)

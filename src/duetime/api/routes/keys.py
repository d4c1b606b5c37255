"""API keys and the audit log."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

from duetime.api.call import Call
from duetime.api.endpoint import Reply, Routes
from duetime.api.problems import FORBIDDEN, Problem
from duetime.errors import InvalidInput
from duetime.ids import new_id, show
from duetime.model.access import SCOPED_ROLES, Action, ApiKey, NewKey, Role
from duetime.model.key_grants import NEVER, Grant, Issuer, Wish, grant
from duetime.model.key_text import KeyText, new_key_text
from duetime.model.name import check_key
from duetime.model.network import check_networks
from duetime.model.schedule import check_moment
from duetime.model.structs import struct_like
from duetime.spec.kinds import read_duration
from duetime.wire.admin import (
    AuditPage,
    AuditQuery,
    AuditView,
    KeyCreated,
    KeyPage,
    KeyQuery,
    KeyRequest,
    KeyView,
    RootQuery,
    RotateRequest,
)

routes = Routes("Administration")
_SCOPED = f"omit it, or choose one of {', '.join(role.name.lower() for role in SCOPED_ROLES)}"


@routes.get("/v1/admin/keys", Action.MANAGE_KEYS, query=KeyQuery, answer=KeyPage)
async def list_keys(call: Call) -> KeyPage:
    """List the keys of the tenant, oldest first, including revoked and expired ones."""
    size = call.query.page_size
    found = await call.service.store.access.keys(_scope(call, root=call.query.root), await call.page_start(), size)
    place = found[-1].id if len(found) == size else None
    return KeyPage(tuple(map(_view, found)), await call.next_cursor(place))


@routes.post("/v1/admin/keys", Action.MANAGE_KEYS, body=KeyRequest, answer=KeyCreated, status=201)
async def create_key(call: Call) -> Reply:
    """Create a key. Its text is in the response, and never shown again."""
    request = call.body
    role = Role[request.role.upper()]
    scope = _scope(call, root=role is Role.ROOT)
    _check_scope(request, role)
    made = new_key_text()
    name = check_key(request.name, "name")
    granted = (await _granting(call))(None)
    key = await call.service.store.access.create_key(
        struct_like(NewKey, granted, **_text(made), tenant_id=scope, role=role, name=name, **_bounds(request))
    )
    await call.act("keys.create", show("key", key.id), f"{request.role} {name}", in_tenant=scope is not None)
    return _created(key, made.text)


@routes.post(
    "/v1/admin/keys/{key_id}/rotate",
    Action.MANAGE_KEYS,
    query=RootQuery,
    body=RotateRequest,
    body_optional=True,
    answer=KeyCreated,
    status=201,
    problems=(409,),
)
async def rotate_key(call: Call) -> Reply:
    """Create a key that replaces another. The old key works for a while longer."""
    request, key_id = call.body, call.identity("key")
    scope = _scope(call, root=call.query.root)
    made = new_key_text()
    name = None if request.name is None else check_key(request.name, "name")
    overlap = read_duration(request.overlap, "overlap")
    granted = await _granting(call)

    def successor(old: ApiKey) -> NewKey:
        kept = {"role": old.role, **_bounds(old)}
        return struct_like(NewKey, granted(old), **_text(made), tenant_id=scope, name=name or old.name, **kept)

    key = await call.service.store.access.rotate_key(scope, key_id, successor, overlap)
    call.service.gate.forget()
    await call.act("keys.rotate", show("key", key_id), show("key", key.id), in_tenant=scope is not None)
    return _created(key, made.text)


@routes.action(
    "/v1/admin/keys/{key_id}/revoke",
    Action.MANAGE_KEYS,
    ends_access=True,
    query=RootQuery,
    answer=KeyView,
    problems=(409,),
)
async def revoke_key(call: Call) -> KeyView:
    """Revoke a key: at once on this server, within seconds on others."""
    key_id, scope = call.identity("key"), _scope(call, root=call.query.root)
    key = await call.service.store.access.revoke_key(scope, key_id)
    call.service.gate.forget()
    await call.act("keys.revoke", show("key", key_id), in_tenant=scope is not None)
    return _view(key)


@routes.get("/v1/audit", Action.READ_AUDIT, query=AuditQuery, answer=AuditPage)
async def list_audit(call: Call) -> AuditPage:
    """List the audit log, newest first: which key did what to which object."""
    size = call.query.page_size
    scope = _scope(call, root=call.query.all)
    found = await call.service.store.audit.audit(scope, await call.page_start(), size)
    place = found[-1].entry.id if len(found) == size else None
    items = tuple(
        struct_like(AuditView, each.entry, at=each.at, key_id=each.entry.key_id and show("key", each.entry.key_id))
        for each in found
    )
    return AuditPage(items, await call.next_cursor(place))


def _check_scope(request: KeyRequest, role: Role) -> None:
    """A worker's key can be bound to queues; a key of some other roles to an owner, a tag and a queue."""
    scoped = role in SCOPED_ROLES
    role_text = f"a key with the role {request.role}"
    for field in ("owner", "tag"):
        if getattr(request, field) is not None and not scoped:
            raise InvalidInput(f"{role_text} cannot be bound to `{field}`", field=field, remedy=_SCOPED)
    if request.queues and role is not Role.WORKER:
        if not scoped:
            raise InvalidInput(f"{role_text} cannot be bound to a queue", field="queues", remedy=_SCOPED)
        if len(request.queues) > 1:
            raise InvalidInput("only a worker's key can be bound to several queues", field="queues", remedy="give one")
    if request.owner is not None:
        check_key(request.owner, "owner")


def _bounds(given: KeyRequest | ApiKey) -> dict[str, Any]:
    return {"queues": given.queues, "owner": given.owner, "tag": given.tag}


def _scope(call: Call, *, root: bool) -> int | None:
    """The tenant of the keys; None for root keys, which only a root key may manage."""
    if root and call.who.role is not Role.ROOT:
        raise Problem(FORBIDDEN, "only a root key may do this", remedy="omit root")
    return None if root else call.tenant_id


async def _granting(call: Call) -> Callable[[ApiKey | None], Grant]:
    """The grants that the caller may give to the new key, which may replace another."""
    wish = Wish(_expiry(call.body.expires_at), _networks(call.body.networks))
    issuer = Issuer(call.who.expires_at, call.who.networks)
    now, lifetime = await call.service.store.now(), call.service.settings.key_lifetime
    return lambda replaced: grant(issuer, wish, now, lifetime, replaced)


def _expiry(given: str | None) -> datetime | Literal["never"] | None:
    return given if given is None or given == NEVER else check_moment(given, "expires_at")


def _networks(given: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if given is None else check_networks(given, "networks")


def _text(made: KeyText) -> dict[str, Any]:
    return {"id": new_id(), "hash": made.hash, "hint": made.hint}


def _view(key: ApiKey) -> KeyView:
    return struct_like(KeyView, key, **_names(key))


def _created(key: ApiKey, text: str) -> Reply:
    return Reply(struct_like(KeyCreated, key, **_names(key), key=text))


def _names(key: ApiKey) -> dict[str, str]:
    return {"key_id": show("key", key.id), "role": key.role.name.lower()}

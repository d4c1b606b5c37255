"""Browser sessions: login, logout, and the current caller."""

from importlib.metadata import version
from typing import Any

from duetime.api.authentication import refuse_elsewhere
from duetime.api.browser_sessions import no_cookie, session_hash
from duetime.api.call import Call
from duetime.api.endpoint import Reply, Routes
from duetime.api.origin import may_log_in, refusal
from duetime.api.problems import FORBIDDEN, UNAUTHENTICATED, Problem
from duetime.errors import Conflict
from duetime.ids import show
from duetime.model.access import ALLOWED, Action, ApiKey, Role, may
from duetime.model.key_text import hash_of, looks_like_key
from duetime.model.session import EVERYWHERE, Session, SessionScope
from duetime.model.structs import struct_like
from duetime.wire.admin import LoginLink, SessionPage, SessionQuery, SessionsOf, SessionView
from duetime.wire.fields import Nothing
from duetime.wire.figures import Me, ScopeView
from duetime.wire.service import LoginQuery, LoginRequest
from duetime.wire.sso import LoggedOut, UserView

routes = Routes("Sessions")
HTML = "text/html; charset=utf-8"


@routes.get("/login", None, query=LoginQuery, status=303, answers_with=HTML, problems=(401, 403))
async def login(call: Call) -> Reply:
    """Begin a browser session with the token of a one-time link."""
    key = await call.service.sessions.follow(call.query.token)
    cookie = None if key is None else await _begin(call, key)
    if cookie is not None:
        return Reply(content=b"", media=HTML, headers={"location": "/"}, cookies=(cookie,))
    if "text/html" in (call.header(b"accept") or ""):
        return Reply(content=b"", media=HTML, headers={"location": "/#link-is-over"})
    raise Problem(
        UNAUTHENTICATED,
        "the link was used, or has expired",
        field="token",
        remedy="get a new link: duetime login-link",
    )


@routes.post(
    "/login", None, body=LoginRequest, body_limit="tiny", answer=Nothing, problems=(401, 403), repeats="by nature"
)
async def login_with_key(call: Call) -> Reply:
    """Begin a browser session with a key."""
    _refuse_other_sites(call)
    service, text = call.service, call.body.key.strip()
    key = await service.store.access.key_by_hash(hash_of(text)) if looks_like_key(text) else None
    cookie = None if key is None else await _begin(call, key)
    if cookie is None:
        raise Problem(
            UNAUTHENTICATED,
            "the key is unknown, expired or revoked",
            field="key",
            remedy="ask an admin for a new one",
            headers={"www-authenticate": 'Bearer realm="duetime"'},
        )
    return Reply(Nothing(), cookies=(cookie,))


@routes.action("/logout", None, body_limit="tiny", answer=LoggedOut, problems=(403,), repeats="by nature")
async def logout(call: Call) -> Reply:
    """End a browser session, also on the server."""
    _refuse_other_sites(call)
    service, known = call.service, session_hash(call.headers, call.peer)
    opened = None if known is None else await service.store.sessions.session_of(known)
    # An unknown token must not clear the cache of sessions.
    if known is not None and opened is not None:
        with service.gate.ending_sessions():
            await service.store.sessions.end_session_of(known)
    person = None if opened is None else opened.identity
    link = None if person is None else service.gate.identities.links.get(person.provider)
    ends_there = link is not None and link.provider.logout == "provider"
    address = await service.login_flow.logout_address(link) if link is not None and ends_there else None
    return Reply(LoggedOut(address), cookies=(no_cookie(call.headers, call.peer),))


@routes.action("/v1/login-links", Action.READ, answer=LoginLink, status=201)
async def create_login_link(call: Call) -> LoginLink:
    """Create a link that logs a browser in once, with the key of this request."""
    key_id = call.who.key_id
    if key_id is None:
        raise Problem(FORBIDDEN, "only a key can create a login link", remedy="log in on the dashboard")
    if call.who.session_id is not None:
        # Otherwise a session could prolong itself without end.
        raise Problem(FORBIDDEN, "a session cannot create a login link", remedy="authenticate with the key itself")
    made = await call.service.sessions.link(key_id)
    if made is None:
        raise Conflict("the key is no longer usable", remedy="use another key")
    return LoginLink(token=made.token, path=f"/login?token={made.token}", expires_at=made.expires_at)


@routes.get("/v1/sessions", Action.READ, query=SessionQuery, answer=SessionPage)
async def list_sessions(call: Call) -> SessionPage:
    """List browser sessions, newest first: of this key, of all keys of the tenant, or of all tenants."""
    size = call.query.page_size
    scope = _scope(call, call.query.of)
    found = await call.service.store.sessions.sessions(scope, await call.page_start(), size)
    place = found[-1].id if len(found) == size else None
    now, views = await call.service.store.now(), [await _view(call, each) for each in found]
    return SessionPage(tuple(view for view in views if view.ends_at > now), await call.next_cursor(place))


@routes.action("/v1/sessions/{session_id}/revoke", Action.READ, answer=SessionView)
async def revoke_session(call: Call) -> SessionView:
    """Revoke a session: at once on this server, within seconds on others. Sessions of other keys need the permission to
    manage keys."""
    session_id = call.identity("ses", "session_id")
    with call.service.gate.ending_sessions():
        ended = await call.service.store.sessions.end_session(_scope(call, _widest(call)), session_id)
    about = f"{ended.key_name if ended.identity is None else ended.identity.label} from {ended.address}"
    await call.act("sessions.revoke", show("ses", session_id), about, in_tenant=call.who.role is not Role.ROOT)
    return await _view(call, ended)


@routes.get("/v1/me", Action.READ, scoped=True, answer=Me)
async def get_me(call: Call) -> Me:
    """Read the caller's key, tenant and permissions."""
    who, service = call.who, call.service
    assert who.role is not None  # authenticated
    return Me(
        key_name=who.name,
        role=who.role.name.lower(),  # type: ignore[arg-type]
        tenant=(await service.gate.tenant(who.tenant_id)).name,
        may=tuple(sorted(action.name.lower() for action in ALLOWED[who.role])),
        now=await call.store.now(),
        scope=None if who.scope is None else struct_like(ScopeView, who.scope),
        version=version("duetime"),
        user=None if who.user is None else struct_like(UserView, who.user),
        tenants=() if who.user is None else who.user.tenants,
    )


async def _begin(call: Call, key: ApiKey) -> str | None:
    """The `Set-Cookie` header of a new session; None if the key is no longer usable."""
    refuse_elsewhere(key.networks, call.peer)
    return await call.service.sessions.begin(key, call.headers, call.peer)


def _widest(call: Call) -> SessionsOf:
    """The sessions that the caller may revoke."""
    role = call.who.role
    assert role is not None  # authenticated
    if role is Role.ROOT:
        return "all"
    return "tenant" if may(role, Action.MANAGE_KEYS) else "key"


def _scope(call: Call, of: SessionsOf) -> SessionScope:
    widest = _widest(call)
    if of == "key":
        return SessionScope(key_id=call.who.holder_id)
    if of == "all" and widest != "all":
        raise Problem(FORBIDDEN, "only a root key may see all sessions", field="of", remedy="omit it")
    if widest == "key":
        raise Problem(
            FORBIDDEN, "only keys that may manage keys see sessions of other keys", field="of", remedy="omit it"
        )
    return EVERYWHERE if of == "all" else SessionScope(tenant_id=call.tenant_id)


async def _view(call: Call, session: Session) -> SessionView:
    latest = session.created_at + call.service.gate.session_lifetime(session.identity)
    return struct_like(
        SessionView,
        session,
        session_id=show("ses", session.id),
        expires_at=min(session.expires_at, latest),
        ends_at=min(session.ends_at, latest),
        user_agent=session.agent,
        current=session.id == call.who.session_id,
        **await _holder(call, session),
    )


async def _holder(call: Call, session: Session) -> dict[str, Any]:
    """The key or the person of a session. The admin of a tenant sees what a person may do there, and nothing of other
    tenants."""
    person = session.identity
    if person is None:
        assert session.role is not None  # that of its key
        role = session.role.name.lower()
        return {"key_id": show("key", session.key_id), "role": role, "user": None}
    grants = call.service.gate.identities.grants(person)
    if call.who.role is not Role.ROOT and call.who.holder_id != person.id:
        tenant = (await call.tenant()).name
        grants = tuple(each for each in grants if each.tenant in (None, tenant))
    first = grants[0] if grants else None
    return {
        "key_id": None,
        "key_name": person.label,
        "role": None if first is None else first.role.name.lower(),
        "tenant": None if first is None else first.tenant,
        "user": struct_like(UserView, person),
    }


def _refuse_other_sites(call: Call) -> None:
    """Refuse pages of other sites: they must not log a browser in with another key, or out."""
    if not may_log_in(call.headers):
        raise refusal("log in on this server's dashboard")

"""Single sign-on: the ways to log in, and logging a browser in through an identity provider."""

import logging
from contextlib import suppress

from duetime.api.browser_sessions import login_cookie, login_cookie_of
from duetime.api.call import Call
from duetime.api.endpoint import Reply, Routes
from duetime.api.origin import may_log_in
from duetime.api.problems import FORBIDDEN, NOT_FOUND, PROVIDER_UNAVAILABLE, UNAUTHENTICATED, Kind, Problem
from duetime.api.sso.login_flow import LASTS, Finished, LoginRefused
from duetime.api.sso.login_pages import HEADERS, refusal_page
from duetime.api.sso.provider_link import ProviderLink
from duetime.errors import NotFound
from duetime.model.identity import Identity, TenantGrant
from duetime.model.structs import struct_like
from duetime.text.visible import visible
from duetime.wire.sso import BeginQuery, CallbackQuery, LoginMethods, ProviderView

log = logging.getLogger("duetime.api")
routes = Routes("Sessions")
HTML = "text/html; charset=utf-8"
_KINDS: dict[int, Kind] = {401: UNAUTHENTICATED, 403: FORBIDDEN, 404: NOT_FOUND, 503: PROVIDER_UNAVAILABLE}


@routes.get("/v1/login-methods", None, answer=LoginMethods)
async def get_login_methods(call: Call) -> LoginMethods:
    """List the identity providers to log in with."""
    return LoginMethods(
        tuple(
            struct_like(ProviderView, each, login_path=f"/login/sso/{each.name}")
            for each in call.service.gate.identities.providers
        )
    )


@routes.get(
    "/login/sso/{provider}", None, query=BeginQuery, status=303, answers_with=HTML, problems=(401, 403, 404, 503)
)
async def begin_sso_login(call: Call) -> Reply:
    """Begin to log a browser in through an identity provider."""
    name = call.path["provider"]
    try:
        if not may_log_in(call.headers):
            raise LoginRefused(
                403, "Another site sent you here", "A login begins on this server's own pages.", "Open the dashboard."
            )
        link = call.service.login_flow.link(name)
        started = await call.service.login_flow.begin(link, call.query.to)
    except LoginRefused as error:
        return _refusal(call, error, name)
    cookie = login_cookie(started.cookie, LASTS, call.headers, call.peer)
    return Reply(content=b"", media=HTML, headers={"location": started.address}, cookies=(cookie,))


@routes.get(
    "/login/sso/{provider}/callback",
    None,
    query=CallbackQuery,
    status=303,
    answers_with=HTML,
    problems=(401, 403, 404, 503),
)
async def finish_sso_login(call: Call) -> Reply:
    """Begin a browser session with the answer of an identity provider."""
    name, flow = call.path["provider"], call.service.login_flow
    try:
        link = flow.link(name)
        done = await flow.finish(link, call.query, login_cookie_of(call.headers, call.peer))
        cookie = await _begin(call, link, done)
    except LoginRefused as error:
        return _refusal(call, error, name)
    over = login_cookie("", 0, call.headers, call.peer)
    return Reply(content=b"", media=HTML, headers={"location": done.pending.to}, cookies=(cookie, over))


async def _begin(call: Call, link: ProviderLink, done: Finished) -> str:
    """The cookie of a new session. Raises `LoginRefused`."""
    identity, service = done.person.identity, call.service
    grants = service.gate.identities.grants(identity)
    tenants = [tenant for each in grants if (tenant := await _tenant(call, each)) is not None]
    if not tenants and all(each.tenant is not None for each in grants):
        raise LoginRefused(
            403,
            "This account has no access",
            f"{_shown(identity)} is logged in at {link.provider.title}, and none of its groups gives access here.",
            f"Ask the operator of this service to give one of your groups access (claim {link.provider.groups_claim})"
            + (f", or to create the tenant {grants[0].tenant}." if grants else "."),
        )
    cookie = await service.sessions.begin_for(
        done.pending.session_id, identity, tuple(tenants), link.provider.session_lifetime, call.headers, call.peer
    )
    if cookie is None:
        raise LoginRefused(
            401, "This login was used before", "A login begins one session only.", "Log in again, if you must."
        )
    await service.trail.login(identity, tenants[0] if tenants else None, str(call.peer.address))
    return cookie


async def _tenant(call: Call, grant: TenantGrant) -> int | None:
    if grant.tenant is not None:
        with suppress(NotFound):
            return (await call.service.store.tenants.tenant(grant.tenant)).id
    return None


def _shown(identity: Identity) -> str:
    return visible(identity.email or identity.subject)


def _refusal(call: Call, error: LoginRefused, provider: str) -> Reply:
    """A page for a browser, a problem for a program. Both count as a failed login."""
    log.info("a login with the provider %s was refused: %s", provider[:60], visible(str(error))[:500])
    if "text/html" not in (call.header(b"accept") or ""):
        raise Problem(_KINDS[error.status], error.detail, remedy=error.remedy)
    known = provider if provider in call.service.gate.identities.links else None
    return Reply(status=error.status, content=refusal_page(error, known), media=HTML, headers=HEADERS)

"""Sessions: how a browser logs in and out, and what it learns of itself."""

from importlib.metadata import version

from duetime.api.endpoint import Call, Reply, Routes
from duetime.api.origin import may_log_in, refusal
from duetime.api.problems import UNAUTHENTICATED, Problem
from duetime.model.access import ALLOWED, Action
from duetime.model.key_text import hash_of, looks_like_key
from duetime.wire.fields import Nothing
from duetime.wire.figures import Me
from duetime.wire.service import LoginQuery, LoginRequest

routes = Routes("Sessions")
HTML = "text/html; charset=utf-8"


@routes.get("/login", None, query=LoginQuery, status=303, answers_with=HTML, problems=(401,))
async def login(call: Call) -> Reply:
    """Begin a browser's session with the token of a one-time link."""
    cookie = await call.service.sessions.begin(call.query.token)
    if cookie is not None:
        return Reply(content=b"", media=HTML, headers={"location": "/", "set-cookie": cookie})
    if "text/html" in (call.header(b"accept") or ""):
        return Reply(content=b"", media=HTML, headers={"location": "/#link-is-over"})
    raise Problem(
        UNAUTHENTICATED,
        "the link was used already, or is too old",
        field="token",
        remedy="ask for a new one: duetime prints it when it starts",
    )


@routes.post("/login", None, body=LoginRequest, body_limit="tiny", answer=Nothing, problems=(401, 403))
async def login_with_key(call: Call) -> Reply:
    """Begin a browser's session with a key."""
    _refuse_other_sites(call)
    service, text = call.service, call.body.key.strip()
    hash = hash_of(text)
    if not looks_like_key(text) or await service.store.key_by_hash(hash) is None:
        raise Problem(
            UNAUTHENTICATED,
            "the key is unknown, expired or revoked",
            field="key",
            remedy="ask an admin for a new one",
            headers={"www-authenticate": 'Bearer realm="duetime"'},
        )
    return Reply(Nothing(), headers={"set-cookie": await service.sessions.cookie(hash)})


@routes.post("/logout", None, body=Nothing, body_limit="tiny", body_optional=True, answer=Nothing, problems=(403,))
async def logout(call: Call) -> Reply:
    """End a browser's session."""
    _refuse_other_sites(call)
    return Reply(Nothing(), headers={"set-cookie": call.service.sessions.no_cookie})


@routes.get("/v1/me", Action.READ, answer=Me)
async def get_me(call: Call) -> Me:
    """Who asks, in which tenant, and what they may do."""
    who, service = call.who, call.service
    assert who.role is not None  # the gate has let them in
    return Me(
        key_name=who.name,
        role=who.role.name.lower(),  # type: ignore[arg-type]
        tenant=(await service.gate.tenant(who.tenant_id)).name,
        may=tuple(sorted(action.name.lower() for action in ALLOWED[who.role])),
        now=await service.store.now(),
        version=version("duetime"),
    )


def _refuse_other_sites(call: Call) -> None:
    """A page of another site shall neither log somebody in here as somebody else, nor out."""
    if not may_log_in(call.headers):
        raise refusal("log in on this server's own page")

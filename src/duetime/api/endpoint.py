"""An endpoint: one entry of the table from which come the routes, the checks, the documentation and the test matrix."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import msgspec
from starlette.types import Receive

from duetime import ids
from duetime.api.caller import Caller
from duetime.api.peer import Peer
from duetime.errors import InvalidInput, NotFound
from duetime.model.access import Action

if TYPE_CHECKING:
    from duetime.api.service import Service

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
JSON = "application/json"
IDEMPOTENCY = {"Idempotency-Key": "The same key and body again give the first answer again."}


class Call:
    """One request on its way through the API: who asks, and what for."""

    __slots__ = ("_receive", "admitted", "body", "endpoint", "headers", "path", "peer", "query", "service", "who")

    def __init__(
        self,
        service: "Service",
        endpoint: "Endpoint",
        headers: Mapping[bytes, bytes],
        path: Mapping[str, str],
        who: Caller,
        receive: Receive,
        peer: Peer,
    ) -> None:
        self.service = service
        self.endpoint = endpoint
        self.headers = headers
        self.path = path
        self.who = who
        self.peer = peer
        self._receive = receive
        self.admitted: Any = None
        """What `endpoint.admit` found."""
        self.query: Any = None
        """As `endpoint.query` has it."""
        self.body: Any = None
        """As `endpoint.body` has it, or bytes where the endpoint reads them itself."""

    @property
    def tenant_id(self) -> int:
        return self.who.tenant_id

    async def gone(self) -> None:
        """Wait until the caller has closed the connection; only once the body has been read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def identity(self, kind: ids.Kind, name: str | None = None) -> UUID:
        """The id in the path. One that cannot be an id is as missing as one that nobody has."""
        given = self.path[name or f"{kind}_id"]
        try:
            return ids.parse(kind, given)
        except InvalidInput:
            raise NotFound(f"there is no {kind} {given[:60]}") from None

    async def act(self, action: str, about: str, detail: str | None = None, *, in_tenant: bool = True) -> None:
        """Put what was done on the audit trail."""
        await self.service.trail.record(self.who, action, about, detail, in_tenant=in_tenant)


class Reply(msgspec.Struct, frozen=True):
    """An answer that says more than a value."""

    value: Any = None
    status: int | None = None
    """The endpoint's own when it is None."""
    headers: Mapping[str, str] = {}
    content: bytes | None = None
    """Bytes as they are, instead of a value."""
    media: str = JSON


class Stream(msgspec.Struct, frozen=True):
    """An answer without an end."""

    parts: AsyncIterator[bytes]
    media: str


Handler = Callable[[Call], Awaitable[Any]]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    method: Method
    path: str
    name: str
    """The operation's id in the OpenAPI document: what clients call their method."""
    tag: str
    summary: str
    may: Action | None
    """What the caller must be allowed to do; None for what takes no key."""
    handler: Handler
    admit: Callable[[Call], Awaitable[None]] | None = None
    """Checks, before the body is read, what a caller shows in place of a key or beside it."""
    query: Any = None
    body: Any = None
    reads: Literal["json", "bytes"] = "json"
    """Whether the body arrives as `body` has it, or as bytes, for the handler to read."""
    media: tuple[str, ...] = (JSON,)
    """What the body may be."""
    body_limit: Literal["job", "batch", "payload", "small", "tiny"] = "small"
    body_optional: bool = False
    answer: Any = None
    answers_with: str = JSON
    status: int = 200
    problems: tuple[int, ...] = ()
    """Statuses beyond those that every endpoint of its kind may answer."""
    headers: Mapping[str, str] = {}
    """Request headers that it understands, with what they mean."""
    required_headers: tuple[str, ...] = ()
    """Those of them without which it refuses."""
    repeats: Literal["by answer", "by handler", "by nature"] = "by answer"
    """How a POST with an idempotency key is done once: its answer is kept and given again; or its handler keeps the key
    together with what it does; or repeating it does nothing more than doing it once."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names in the path."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))


class Routes:
    """The endpoints of one file, in the order in which they are documented."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._endpoints: list[Endpoint] = []

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints)

    def _add(self, method: Method, path: str, may: Action | None, **what: Any) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            name = getattr(handler, "__name__", "")
            if method == "POST":
                what["headers"] = IDEMPOTENCY | what.get("headers", {})
            summary = what.pop("summary", None) or (handler.__doc__ or "").strip()
            self._endpoints.append(
                Endpoint(
                    method=method, path=path, may=may, name=name, tag=self.tag, summary=summary, handler=handler, **what
                )
            )
            return handler

        return add

    def get(self, path: str, may: Action | None, **what: Any) -> Callable[[Handler], Handler]:
        return self._add("GET", path, may, **what)

    def post(self, path: str, may: Action | None, **what: Any) -> Callable[[Handler], Handler]:
        return self._add("POST", path, may, **what)

    def put(self, path: str, may: Action | None, **what: Any) -> Callable[[Handler], Handler]:
        return self._add("PUT", path, may, **what)

    def patch(self, path: str, may: Action | None, **what: Any) -> Callable[[Handler], Handler]:
        return self._add("PATCH", path, may, **what)

    def delete(self, path: str, may: Action | None, **what: Any) -> Callable[[Handler], Handler]:
        return self._add("DELETE", path, may, **what)

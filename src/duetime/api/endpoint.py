"""An endpoint: one entry of the table that routes, checks, documentation and the test matrix are made from."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from duetime.model.access import Action
from duetime.wire.fields import Nothing

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
JSON = "application/json"
IDEMPOTENCY = {"Idempotency-Key": "A request with the same key and body gets the first response again."}


class Reply(msgspec.Struct, frozen=True):
    """A response with a status, headers or bytes of its own."""

    value: Any = None
    status: int | None = None
    """None: the endpoint's status."""
    headers: Mapping[str, str] = {}
    content: bytes | None = None
    """The body, instead of a value."""
    media: str = JSON
    cookies: tuple[str, ...] = ()
    """Values of `Set-Cookie`."""


class Stream(msgspec.Struct, frozen=True):
    """A response that is sent as it is produced."""

    parts: AsyncIterator[bytes]
    media: str


Handler = Callable[[Any], Awaitable[Any]]
"""Takes a `Call`. The type is not named here: `call` imports the service, which imports this module."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    method: Method
    path: str
    name: str
    """The operation id in the OpenAPI document, and the method name in clients."""
    tag: str
    summary: str
    may: Action | None
    """The permission that the caller needs; None: no key is needed."""
    handler: Handler
    admit: Handler | None = None
    """A check before the body is read, of credentials in place of a key or beside it."""
    query: Any = None
    body: Any = None
    reads: Literal["json", "bytes"] = "json"
    """Whether the handler gets the body as the type `body`, or as bytes."""
    media: tuple[str, ...] = (JSON,)
    """The accepted media types of the body."""
    body_limit: Literal["job", "batch", "payload", "small", "tiny"] = "small"
    body_optional: bool = False
    answer: Any = None
    answers_with: str = JSON
    status: int = 200
    problems: tuple[int, ...] = ()
    """Error statuses beyond those that every endpoint of its kind can return."""
    replica: bool = False
    """Whether a replica of the database may answer. The handler reads from `call.store`, and its answer says how
    stale it may be (`Stale`)."""
    headers: Mapping[str, str] = {}
    """Request headers and their descriptions."""
    required_headers: tuple[str, ...] = ()
    """The headers among them that are required."""
    scoped: bool = False
    """Whether callers with a scope (`model/scope.py`) may use it. Its handler reads and changes jobs and runs through
    `call.store` and `call.intake` only, which enforce the scope."""
    ends_access: bool = False
    """Whether it takes access away, and nothing else: then it works in a suspended tenant, too."""
    repeats: Literal["by answer", "by handler", "by nature"] = "by answer"
    """How a POST with an idempotency key is idempotent. "by answer": the response is stored and returned again. "by
    handler": the handler stores the key in the transaction of the effect. "by nature": repeating it has no effect."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters in the path."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))


class Routes:
    """The endpoints of one module, in the order of the documentation."""

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

    def action(self, path: str, may: Action | None, **what: Any) -> Callable[[Handler], Handler]:
        """A POST whose body may be missing: the last part of its path says what it does."""
        return self._add("POST", path, may, body=Nothing, body_optional=True, **what)

    def put(self, path: str, may: Action | None, **what: Any) -> Callable[[Handler], Handler]:
        return self._add("PUT", path, may, **what)

    def patch(self, path: str, may: Action | None, **what: Any) -> Callable[[Handler], Handler]:
        return self._add("PATCH", path, may, **what)

    def delete(self, path: str, may: Action | None, **what: Any) -> Callable[[Handler], Handler]:
        return self._add("DELETE", path, may, **what)

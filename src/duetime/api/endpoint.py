"""An endpoint: one entry of the table that routes, checks, documentation and the test matrix are made from."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from duetime.model.access import Action

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
JSON = "application/json"
IDEMPOTENCY = {"Idempotency-Key": "The same key and body again give the first answer again."}


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


Handler = Callable[[Any], Awaitable[Any]]
"""Takes a `Call`. The type is not named here: a call knows the service, and the service knows endpoints."""


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
    admit: Handler | None = None
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

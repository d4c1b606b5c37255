"""One request: its caller, path, query and body."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self
from uuid import UUID

from starlette.types import Receive

from duetime import ids
from duetime.api.caller import Caller
from duetime.api.endpoint import Endpoint
from duetime.api.page_cursors import name_list
from duetime.api.peer import Peer
from duetime.api.problems import RATE_LIMITED, Problem
from duetime.api.service import Service
from duetime.errors import InvalidInput, NotFound, StoreUnavailable
from duetime.model.tenant import Tenant
from duetime.store.protocol.store import Store
from duetime.store.rules.caller_keys import IDEMPOTENCY
from duetime.store.wrappers.scoped import Bounds, ScopedSubmitting, Submitting, within


class Created:
    """What a request creates: the block of `Call.submitting`."""

    __slots__ = ("_call", "_counted", "_keys", "_tenant", "count", "headers")

    def __init__(self, call: "Call", most: int, keys: Sequence[str | None]) -> None:
        self._call = call
        self._keys = keys
        self.count = self._counted = most
        """How many jobs or runs the request creates: an assumption, to be replaced by the real number."""
        self.headers: dict[str, str] = {}
        """Response headers with the state of the limit."""

    async def __aenter__(self) -> Self:
        call = self._call
        self._tenant = await call.tenant()
        if self.count:
            try:
                self.headers = await call.service.limits.submit(self._tenant, call.who, self.count)
            except Problem as problem:
                if problem.kind is not RATE_LIMITED or not await call.are_known(self._keys):
                    raise
                self.count = self._counted = 0
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        # After `StoreUnavailable` it is not known whether it was created.
        if isinstance(error, Exception) and not isinstance(error, StoreUnavailable):
            self.count = min(1, self._counted)
        self._call.service.limits.settle(self._tenant, self._call.who, self._counted - self.count)


class Call:
    """One request, as its handler sees it."""

    def __init__(
        self,
        service: Service,
        endpoint: Endpoint,
        headers: Mapping[bytes, bytes],
        path: Mapping[str, str],
        who: Caller,
        receive: Receive,
        peer: Peer,
    ) -> None:
        self.service = service
        self.source = service.store
        """The database of the handler: the store, or a replica of it."""
        self.endpoint = endpoint
        self.headers = headers
        self.path = path
        self.who = who
        self.peer = peer
        self._receive = receive
        self._tenant: Tenant | None = None
        self.admitted: Any = None
        """The result of `endpoint.admit`."""
        self.query: Any = None
        """Of the type `endpoint.query`."""
        self.body: Any = None
        """Of the type `endpoint.body`, or bytes where the handler parses the body itself."""

    @property
    def tenant_id(self) -> int:
        return self.who.tenant_id

    async def tenant(self) -> Tenant:
        """The tenant of the caller."""
        if self._tenant is None:
            self._tenant = await self.service.gate.tenant(self.who.tenant_id)
        return self._tenant

    @cached_property
    def store(self) -> Store:
        """The store as the caller may see it."""
        return self.source if self.who.scope is None else within(self.source, self.who.scope)

    @property
    def from_replica(self) -> bool:
        return self.source is not self.service.store

    def read_from(self, source: Store) -> None:
        """Let the handler use another database than before."""
        self.source = source
        self.__dict__.pop("store", None)

    @property
    def intake(self) -> Submitting:
        """What stores the jobs of the caller."""
        intake, scope = self.service.intake, self.who.scope
        return intake if scope is None else ScopedSubmitting(intake, Bounds(self.service.store, scope))

    async def gone(self) -> None:
        """Wait until the client closes the connection. Only after the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def identity(self, kind: ids.Kind, name: str | None = None) -> UUID:
        """The id in the path. A malformed id is answered like one that does not exist."""
        given = self.path[name or f"{kind}_id"]
        try:
            return ids.parse(kind, given)
        except InvalidInput:
            raise NotFound(f"there is no {ids.NOUNS[kind]} {given[:60]}") from None

    async def page_start(self) -> UUID | None:
        """Where the page that the query asks for begins; None for the first page."""
        given = self.query.cursor
        return None if given is None else await self.service.cursors.read(given, self._list)

    async def next_cursor(self, place: UUID | None) -> str | None:
        """The cursor of the page that begins there; None where there is no further page."""
        return None if place is None else await self.service.cursors.write(place, self._list)

    async def page_start_bytes(self) -> bytes | None:
        """The same for lists whose places are more than ids."""
        given = self.query.cursor
        return None if given is None else await self.service.cursors.read_bytes(given, self._list)

    async def next_cursor_bytes(self, place: bytes) -> str:
        return await self.service.cursors.write_bytes(place, self._list)

    @property
    def _list(self) -> bytes:
        return name_list(self.tenant_id, self.who.scope, self.endpoint.name, self.path, self.query)

    def submitting(self, most: int, *keys: str | None) -> Created:
        """Count what a request creates against the limit of submissions: `most`, and after the block what it has
        created. Raises a problem if the limit is reached, unless all its idempotency keys are known: a repeated request
        creates nothing. A refused request counts as one."""
        return Created(self, most, keys)

    async def are_known(self, keys: Sequence[str | None]) -> bool:
        """Whether all of these are idempotency keys of jobs that the tenant has."""
        names = [(IDEMPOTENCY, key) for key in keys if key is not None]
        return 0 < len(names) == len(keys) == len(await self.service.store.intake.known_keys(self.tenant_id, names))

    async def act(self, action: str, about: str, detail: str | None = None, *, in_tenant: bool | int = True) -> None:
        """Record an action in the audit trail: of the caller's tenant, of another one, or of none."""
        await self.service.trail.record(self.who, action, about, detail, in_tenant=in_tenant)

"""One request: its caller, path, query and body."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
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
from duetime.store.protocol.store import Store
from duetime.store.rules.caller_keys import IDEMPOTENCY
from duetime.store.wrappers.scoped import Bounds, ScopedSubmitting, Submitting, within


@dataclass(slots=True)
class Created:
    """What a request creates."""

    count: int
    """How many jobs or runs; to be set when fewer or more were created than was assumed."""
    headers: dict[str, str]
    """The state of the limit."""


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
        self.admitted: Any = None
        """The result of `endpoint.admit`."""
        self.query: Any = None
        """Of the type `endpoint.query`."""
        self.body: Any = None
        """Of the type `endpoint.body`, or bytes where the handler parses the body itself."""

    @property
    def tenant_id(self) -> int:
        return self.who.tenant_id

    @cached_property
    def bounds(self) -> Bounds | None:
        """Decides what is in the scope of the caller; None for a caller without one."""
        return None if self.who.scope is None else Bounds(self.service.store, self.who.scope)

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
        if self.bounds is None:
            return self.service.intake
        return ScopedSubmitting(self.service.intake, self.bounds)

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

    @asynccontextmanager
    async def submitting(self, most: int, *keys: str | None) -> AsyncIterator[Created]:
        """Count what a request creates against the limit of submissions: `most`, and after the block what it has
        created. Raises a problem if the limit is reached, unless all its idempotency keys are known: a repeated request
        creates nothing. A refused request counts as one."""
        service = self.service
        tenant = await service.gate.tenant(self.tenant_id)
        counted = most
        try:
            created = Created(most, await service.limits.submit(tenant, self.who, most) if most else {})
        except Problem as problem:
            if problem.kind is not RATE_LIMITED or not await self._are_known(keys):
                raise
            counted, created = 0, Created(0, {})
        try:
            yield created
        except StoreUnavailable:
            raise  # it is not known whether it was created
        except Exception:
            created.count = min(1, counted)
            raise
        finally:
            service.limits.settle(tenant, self.who, counted - created.count)

    async def _are_known(self, keys: Sequence[str | None]) -> bool:
        names = [(IDEMPOTENCY, key) for key in keys if key is not None]
        return 0 < len(names) == len(keys) == len(await self.service.store.intake.known_keys(self.tenant_id, names))

    async def act(self, action: str, about: str, detail: str | None = None, *, in_tenant: bool | int = True) -> None:
        """Record an action in the audit trail: of the caller's tenant, of another one, or of none."""
        await self.service.trail.record(self.who, action, about, detail, in_tenant=in_tenant)

"""A server of the HTTP API inside the test's own process, on a real socket, and callers with keys."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import aiohttp
import msgspec

from duetime.api.data_folder import make_root_key
from duetime.api.http_server import HttpServer
from duetime.api.service import Service
from duetime.archive.archived_store import with_archive
from duetime.ids import new_id
from duetime.model.access import NewKey, Role
from duetime.model.job import DEFAULT_TENANT
from duetime.model.key_text import new_key_text
from duetime.model.tenant import NewTenant, Tenant
from duetime.node.assembly import engine_loops
from duetime.process.loop import Loop
from duetime.settings import Settings
from duetime.store.address import open_ready, store_for
from duetime.store.protocol.store import Store
from tests.support.working import ENCRYPTION as ENCRYPTION
from tests.support.working import quick_settings, watch_clock

OTHER_KEY = "second:YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWY="


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a problem."""
        found: str = self.json["code"]
        return found


class Served:
    """The server, and ways to ask it."""

    def __init__(self, store: Store, service: Service, url: str, root: str, http: aiohttp.ClientSession) -> None:
        self.store = store
        self.service = service
        self.url = url
        self.root = root
        self.http = http

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = "",
        headers: Mapping[str, str] | None = None,
        raw: bytes | BytesIO | None = None,
    ) -> Answer:
        """Ask with the root key, another one, or (None) without any."""
        sent = dict(headers or {})
        if key is not None:
            sent["Authorization"] = f"Bearer {key or self.root}"
        data: bytes | BytesIO | None = raw
        if body is not None:
            data = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        elif raw is not None:
            sent.setdefault("Content-Type", "application/json")
        async with self.http.request(method, self.url + path, data=data, headers=sent, allow_redirects=False) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def get(self, path: str, **how: Any) -> Answer:
        return await self.ask("GET", path, **how)

    async def post(self, path: str, body: Any = None, **how: Any) -> Answer:
        return await self.ask("POST", path, body, **how)

    async def key(self, role: Role = Role.ROOT, tenant_id: int = DEFAULT_TENANT, **what: Any) -> str:
        """The text of a new key: of a tenant, or of the platform's operator."""
        made = new_key_text()
        tenant = None if role is Role.ROOT else tenant_id
        await self.store.access.create_key(
            NewKey(new_id(), tenant, role, role.name.lower(), made.hash, made.hint, **what)
        )
        return made.text

    async def tenant(self, name: str, **what: Any) -> Tenant:
        return await self.store.tenants.create_tenant(NewTenant(name, **what))


@asynccontextmanager
async def served(database_url: str, **settings: Any) -> AsyncIterator[Served]:
    """The API on this database, until the block ends. Nothing moves by itself: no job is fired, no run is reaped."""
    given: Settings = msgspec.structs.replace(quick_settings(database_url), **{"failed_logins": 0, **settings})
    store = store_for(given)
    await open_ready(store)
    try:
        async with _running(with_archive(store, given), given, []) as found:
            yield found
    finally:
        await store.close()


@asynccontextmanager
async def serving(store: Store, settings: Settings) -> AsyncIterator[Served]:
    """A whole node but its worker on this open store, until the block ends."""
    await watch_clock(store, settings)
    async with _running(store, settings, engine_loops(store, settings)) as found:
        yield found


@asynccontextmanager
async def _running(store: Store, settings: Settings, engine: Sequence[Loop]) -> AsyncIterator[Served]:
    given = msgspec.structs.replace(settings, port=0)
    service = Service(store, given)
    server = HttpServer(service, given)
    parts: list[Loop | HttpServer] = [*engine, Loop("service", service.tick), *service.gateway.loops, server]
    stop_listening = store.listen(service.gateway.hint)
    running = [asyncio.create_task(part.run()) for part in parts]
    try:
        root = await make_root_key(store, "root")
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=200)) as http:
            yield Served(store, service, server.url, root.text, http)
    finally:
        for part in parts:
            part.stop()
        await asyncio.gather(*running)
        stop_listening()
        await service.close()

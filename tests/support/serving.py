"""A server inside the test's own process, and what is needed to talk to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from duetime.api.service import Service
from duetime.api.serving import HttpServer
from duetime.client.transport import Transport
from duetime.ids import new_id
from duetime.loop import Loop
from duetime.model.access import NewKey, Role
from duetime.model.job import DEFAULT_TENANT
from duetime.model.key_text import new_key_text
from duetime.settings import Settings
from duetime.store.protocol import Store
from duetime.wiring import engine_loops


class Served:
    """A server on a store, with the engine's loops."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = msgspec.structs.replace(settings, port=0)
        self.service = Service(store, self.settings)
        self.server = HttpServer(self.service, self.settings)

    @property
    def url(self) -> str:
        return self.server.url

    async def key(self, role: Role = Role.ROOT, tenant_id: int | None = DEFAULT_TENANT, **more: Any) -> str:
        """The text of a new key."""
        made = new_key_text()
        tenant = None if role is Role.ROOT else tenant_id
        await self.store.create_key(NewKey(new_id(), tenant, role, "test", made.hash, made.hint, **more))
        return made.text

    async def transport(self, role: Role = Role.ROOT, **more: Any) -> Transport:
        return Transport(self.url, await self.key(role, **more))


@asynccontextmanager
async def serving(store: Store, settings: Settings) -> AsyncIterator[Served]:
    served = Served(store, settings)
    loops = [*engine_loops(store, settings), Loop("service", served.service.tick), *served.service.desk.loops]
    stop_listening = store.listen(served.service.desk.hint)
    parts: list[Loop | HttpServer] = [*loops, served.server]
    running = [asyncio.create_task(part.run()) for part in parts]
    try:
        yield served
    finally:
        for part in parts:
            part.stop()
        await asyncio.gather(*running)
        stop_listening()

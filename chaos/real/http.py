"""An app that asks the servers over HTTP, through one address for both of them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from chaos.real.network import Balancer
from duetime import App
from duetime.ids import new_id
from duetime.model.access import NewKey, Role
from duetime.model.key_text import new_key_text
from duetime.settings import load
from duetime.store.protocol.store import Store


@asynccontextmanager
async def app_over_http(store: Store, urls: Sequence[str]) -> AsyncIterator[App]:
    made = new_key_text()
    await store.access.create_key(NewKey(new_id(), None, Role.ROOT, "chaos", made.hash, made.hint))
    balancer = Balancer(urls)
    await balancer.start()
    try:
        async with App(settings=load(None, {}, {"url": balancer.url, "key": made.text})) as app:
            yield app
    finally:
        await balancer.close()

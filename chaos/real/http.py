"""An app that asks the servers over HTTP, through one address for both of them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from chaos.real.network import Balancer
from duetime import App
from duetime.client.remote_jobs import RemoteJobs
from duetime.ids import new_id
from duetime.model.access import NewKey, Role
from duetime.model.key_text import new_key_text
from duetime.store.protocol.store import Store


class _Remote(RemoteJobs):
    """What can be lent to an app."""

    embedded = False


@asynccontextmanager
async def app_over_http(store: Store, urls: Sequence[str]) -> AsyncIterator[App]:
    made = new_key_text()
    await store.create_key(NewKey(new_id(), None, Role.ROOT, "chaos", made.hash, made.hint))
    balancer = Balancer(urls)
    await balancer.start()
    remote = _Remote(balancer.url, made.text)
    app = App()
    try:
        # An app asks the same of a server as of a store.
        with app.lent(cast(Store, remote)):
            yield app
    finally:
        await remote.close()
        await balancer.close()

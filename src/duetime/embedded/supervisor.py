"""Runs a node of an app inside the user's process, until it is stopped.

If the first start fails, the caller gets the error. A node that fails later is started again, after a pause: in a
process of its own, its end would end the process, and the host's process is not ours to end.
"""

import asyncio
import logging
from collections.abc import Callable

from duetime.api.data_folder import with_encryption_key
from duetime.api.http_server import HttpServer
from duetime.errors import reason_of
from duetime.node.assembly import Node, RemoteNode
from duetime.sdk.app import App
from duetime.store.protocol.store import Store

log = logging.getLogger("duetime")

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0


class Supervisor:
    """Use it on one event loop."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._node: Node | RemoteNode | None = None
        self._stopping = asyncio.Event()
        self._pause = _FIRST_PAUSE

    async def run(self, ready: Callable[[], None]) -> None:
        """Run until `stop`. `ready` is called once the first node is up and its start hooks have run."""
        was_ready = False

        def is_ready() -> None:
            nonlocal was_ready
            self._pause = _FIRST_PAUSE
            if not was_ready:
                was_ready = True
                ready()

        while not self._stopping.is_set():
            try:
                await self._run_node(is_ready)
            except Exception as error:
                found = _single(error)
                if not was_ready or self._stopping.is_set():
                    raise found from None
                log.error(
                    "duetime has stopped working in this process: %s; starting it again in %.0f s",
                    reason_of(found),
                    self._pause,
                    exc_info=found,
                )
                await self._wait()

    def stop(self) -> None:
        """Stop gracefully; called again, stop at once."""
        self._stopping.set()
        if self._node is not None:
            self._node.stop()

    async def _run_node(self, ready: Callable[[], None]) -> None:
        settings = self._app.settings
        if settings.url is not None:
            remote = self._node = RemoteNode(settings, self._app, hosted=True)
            await remote.run(ready)
            return

        async def is_up(_store: Store, _server: HttpServer | None) -> None:
            ready()

        known = settings if settings.sqlite_file is None else with_encryption_key(settings)
        node = self._node = Node(known, app=self._app, hosted=True)
        await node.run(is_up)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._pause):
                await self._stopping.wait()
        except TimeoutError:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)


def _single(error: Exception) -> Exception:
    """The error itself, out of the groups that task groups make of it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error

"""Streams of queues that the settings name are set when a node starts, and not again: a later change by the API stays
until the next start."""

import logging
from collections.abc import Mapping

import msgspec

from duetime.errors import Conflict, InvalidInput, StreamUnavailable, reason_of
from duetime.model.carried import StreamSettings
from duetime.model.job import DEFAULT_TENANT
from duetime.store.protocol.streams import Streams
from duetime.streams.setup import apply_change, check_change

log = logging.getLogger("duetime.streams")

_AGAIN = 10.0
_DONE = 86_400.0


class ConfiguredStreams:
    def __init__(self, streams: Streams, wanted: Mapping[str, str], *, sealed: bool) -> None:
        """`wanted`: addresses by queue, of the default tenant."""
        self._streams = streams
        self._pending = dict(wanted)
        self._sealed = sealed

    async def tick(self) -> float:
        current = {
            each.queue: each.settings.address
            for each in await self._streams.stream_queues(DEFAULT_TENANT)
            if each.current
        }
        for queue, address in list(self._pending.items()):
            if current.get(queue) == address or await self._set(queue, address):
                del self._pending[queue]
        return _AGAIN if self._pending else _DONE

    async def _set(self, queue: str, address: str) -> bool:
        """Set the stream of a queue. Returns false if that has to be tried again later."""

        def change(before: StreamSettings | None) -> StreamSettings:
            return StreamSettings(address) if before is None else msgspec.structs.replace(before, address=address)

        try:
            checked = await check_change(self._streams, DEFAULT_TENANT, queue, change, sealed=self._sealed)
            await apply_change(self._streams, DEFAULT_TENANT, queue, checked)
        except (InvalidInput, Conflict, StreamUnavailable) as error:
            log.error("the queue %s cannot go through its stream yet: %s", queue, reason_of(error))
            return False
        for note in checked.notes:
            log.warning("queue %s: %s", queue, note)
        return True

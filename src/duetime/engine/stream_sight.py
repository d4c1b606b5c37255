"""Whether a run that has no row may be in a stream.

A stream is not searched. A run may be in it if it is younger than the oldest message there. So the answer is never
certain, and a run that cannot be there is missing.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from duetime.engine.streaming import Streaming
from duetime.errors import NotFound, in_stream
from duetime.ids import show
from duetime.store.protocol.streams import Streams

T = TypeVar("T")


class StreamSight:
    def __init__(self, streams: Streams, streaming: Streaming) -> None:
        self._streams = streams
        self._streaming = streaming

    async def of_job(self, tenant_id: int, job_id: UUID, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer about a job. Raises `InStream` instead of `NotFound` where its run may be in a stream."""
        return await self._seen(tenant_id, job_id, show("job", job_id), ask)

    async def of_run(self, tenant_id: int, run_id: UUID, ask: Callable[[], Awaitable[T]]) -> T:
        """The same about a run."""
        return await self._seen(tenant_id, run_id, show("run", run_id), ask)

    async def may_hold(self, tenant_id: int, identity: UUID) -> bool:
        """Whether the job or run with this id may be in a stream of the tenant."""
        sample = await self._streaming.sample(self._streams, tenant_id)
        if sample is None:
            return False
        if sample.may_hold(identity) or self._streaming.depths.may_be_held(tenant_id, identity):
            return True
        fresh = await self._streaming.sample(self._streams, tenant_id, within=0.0)  # it may have been published since
        return fresh is not None and fresh.may_hold(identity)

    async def _seen(self, tenant_id: int, identity: UUID, shown: str, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            return await ask()
        except NotFound:
            if not await self._streaming.has_streams(self._streams, tenant_id):
                raise
        if await self.may_hold(tenant_id, identity):
            raise in_stream(shown)
        return await ask()  # it may have ended while the streams were read

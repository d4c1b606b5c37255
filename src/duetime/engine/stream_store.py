"""A store whose stream queues go through their streams: for an app beside its store, or for a server.

Submissions: see `engine/stream_intake.py`. A run without a row that may be in a stream is reported as such (`InStream`)
instead of as missing.
"""

import copy
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar
from uuid import UUID

from duetime.engine.stream_intake import StreamIntake
from duetime.engine.stream_sight import StreamSight
from duetime.engine.streaming import Streaming
from duetime.model.attempt import Run
from duetime.model.carried import StreamQueue, StreamSettings
from duetime.model.edit import Changes
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import Job
from duetime.model.lists import JobReport
from duetime.store.protocol.service import Lists, Replay
from duetime.store.protocol.store import Control, Reads, Store
from duetime.store.protocol.streams import Streams
from duetime.store.wrappers.overlay import overlay

S = TypeVar("S", bound=Store)
R = TypeVar("R")
T = TypeVar("T")


def with_streams(store: S, streaming: Streaming) -> S:
    """This store, with streams for its callers."""
    sight = StreamSight(store.streams, streaming)
    made = copy.copy(store)
    made.intake = overlay(store.intake, StreamIntake(store, streaming, sight))
    made.reads = overlay(store.reads, StreamReads(store.reads, sight))
    made.lists = overlay(store.lists, StreamLists(store.lists, sight))
    made.control = overlay(store.control, StreamControl(store.control, sight))
    made.replay = overlay(store.replay, StreamReplay(store.replay, sight))
    made.streams = overlay(store.streams, StreamChanges(store.streams, streaming))
    return made


class StreamChanges:
    def __init__(self, inner: Streams, streaming: Streaming) -> None:
        self._inner = inner
        self._streaming = streaming

    async def set_stream(self, tenant_id: int, queue: str, settings: StreamSettings | None) -> StreamQueue | None:
        try:
            return await self._inner.set_stream(tenant_id, queue, settings)
        finally:
            self._streaming.kinds.forget()  # after an error too: the change may have been committed


class _Sighted(Generic[R]):
    def __init__(self, inner: R, sight: StreamSight) -> None:
        self._inner = inner
        self._sight = sight


class StreamReads(_Sighted[Reads]):
    async def job(self, tenant_id: int, job_id: UUID) -> Job:
        return await self._sight.of_job(tenant_id, job_id, lambda: self._inner.job(tenant_id, job_id))

    async def run(self, tenant_id: int, run_id: UUID) -> Run:
        return await self._sight.of_run(tenant_id, run_id, lambda: self._inner.run(tenant_id, run_id))


class StreamLists(_Sighted[Lists]):
    async def job_status(self, tenant_id: int, job_id: UUID) -> JobReport:
        return await self._sight.of_job(tenant_id, job_id, lambda: self._inner.job_status(tenant_id, job_id))


class StreamControl(_Sighted[Control]):
    async def edit_job(self, tenant_id: int, job_id: UUID, changes: Changes, version: int | None = None) -> Job:
        return await self._of_job(tenant_id, job_id, lambda: self._inner.edit_job(tenant_id, job_id, changes, version))

    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job:
        return await self._of_job(tenant_id, job_id, lambda: self._inner.cancel_job(tenant_id, job_id))

    async def pause_job(self, tenant_id: int, job_id: UUID) -> Job:
        return await self._of_job(tenant_id, job_id, lambda: self._inner.pause_job(tenant_id, job_id))

    async def resume_job(self, tenant_id: int, job_id: UUID) -> Job:
        return await self._of_job(tenant_id, job_id, lambda: self._inner.resume_job(tenant_id, job_id))

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        return await self._of_job(tenant_id, job_id, lambda: self._inner.trigger_job(tenant_id, job_id, nonce, request))

    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run:
        return await self._sight.of_run(tenant_id, run_id, lambda: self._inner.cancel_run(tenant_id, run_id))

    async def _of_job(self, tenant_id: int, job_id: UUID, ask: Callable[[], Awaitable[T]]) -> T:
        return await self._sight.of_job(tenant_id, job_id, ask)


class StreamReplay(_Sighted[Replay]):
    async def delete_job(self, tenant_id: int, job_id: UUID) -> None:
        await self._sight.of_job(tenant_id, job_id, lambda: self._inner.delete_job(tenant_id, job_id))

    async def retry_run(self, tenant_id: int, run_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        return await self._sight.of_run(
            tenant_id, run_id, lambda: self._inner.retry_run(tenant_id, run_id, nonce, request)
        )

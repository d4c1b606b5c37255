"""Heartbeats of many workers, renewed together: while one renewal is in progress, the next batch collects."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from duetime.errors import LeaseLost
from duetime.model.worker import Renewal
from duetime.store.protocol.store import Store

_LINGER = 0.01
_MOST = 500


class HeartbeatBatcher:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[tuple[timedelta, UUID], tuple[Sequence[int], int, asyncio.Future[Renewal | None]]] = {}
        self._sending: asyncio.Task[None] | None = None

    async def renew(self, worker_id: UUID, lease: timedelta, open_claims: Sequence[int], answered: int) -> Renewal:
        """Raises `LeaseLost`."""
        key = (lease, worker_id)
        earlier = self._waiting.get(key)
        answer: asyncio.Future[Renewal | None]
        answer = asyncio.get_running_loop().create_future() if earlier is None else earlier[-1]
        self._waiting[key] = (open_claims, answered, answer)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send(), name="duetime heartbeats")
        renewal = await asyncio.shield(answer)
        if renewal is None:
            raise LeaseLost("the worker's lease has expired", remedy="register again")
        return renewal

    async def _send(self) -> None:
        while self._waiting:
            await asyncio.sleep(_LINGER)
            lease = next(iter(self._waiting))[0]
            keys = [key for key in self._waiting if key[0] == lease][:_MOST]
            batch = {worker_id: self._waiting.pop((lease, worker_id)) for _, worker_id in keys}
            try:
                workers = [(worker_id, open_claims) for worker_id, (open_claims, *_) in batch.items()]
                answered = {worker_id: answered for worker_id, (_, answered, _) in batch.items()}
                renewals = await self._store.leases.renew_many(workers, lease, answered)
            except Exception as error:
                for *_, answer in batch.values():
                    if not answer.done():
                        answer.set_exception(error)
                        answer.exception()  # the caller may be gone
                continue
            for worker_id, (*_, answer) in batch.items():
                if not answer.done():
                    answer.set_result(renewals.get(worker_id))

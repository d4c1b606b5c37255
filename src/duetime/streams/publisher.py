"""The connections of an event loop to brokers, and publishing with retries.

While a publish to a stream is in progress, further callers wait, and share the next one. A publish that fails is
repeated with the same bytes for `RETRIED` seconds: the broker may have some of them twice then, which does no harm,
because a run id acts once. After that the broker counts as unavailable. One caller at a time tries it, and the others
are refused at once, until a publish succeeds.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

from duetime.clock import monotonic
from duetime.errors import InvalidInput, StreamUnavailable
from duetime.model.carried import StreamSettings
from duetime.streams.brokers import Brokers
from duetime.streams.protocol import Broker, answered

T = TypeVar("T")

RETRIED = 5.0
_TRIED = 1.0
"""Seconds for the publish that finds out whether a broker is available again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_MOST_TOGETHER = 1000


class _Waiting(NamedTuple):
    bodies: Sequence[bytes]
    answer: asyncio.Future[None]


class _Outlet:
    """One broker: the publishes in progress, and whether it is available."""

    def __init__(self, reached: Callable[[], Broker | None], reach: Callable[[], Awaitable[Broker]]) -> None:
        """`reached`: the broker, if it is open."""
        self._reached = reached
        self._reach = reach
        self._queues: dict[str, deque[_Waiting]] = {}
        """What waits for the publish in progress of each stream."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_down = False
        self._is_tried = False

    async def publish(self, stream: str, bodies: Sequence[bytes]) -> None:
        if self._is_tried:
            raise _unavailable()
        queue = self._queues.get(stream)
        if queue is not None:
            answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            queue.append(_Waiting(bodies, answer))
            await answer
            return
        queue = self._queues[stream] = deque()
        try:
            await self._send(stream, bodies)
        finally:
            if queue:
                task = asyncio.create_task(self._publish_queue(stream, queue))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                del self._queues[stream]

    async def close(self) -> None:
        """Wait for the publishes in progress."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _publish_queue(self, stream: str, queue: deque[_Waiting]) -> None:
        while queue:
            part: list[_Waiting] = []
            count = 0
            while queue and count < _MOST_TOGETHER:
                part.append(queue.popleft())
                count += len(part[-1].bodies)
            error: Exception | None = None
            try:
                await self._send(stream, [body for waiting in part for body in waiting.bodies])
            except Exception as raised:
                error = raised
            for waiting in part:
                if waiting.answer.done():
                    continue
                if error is None:
                    waiting.answer.set_result(None)
                else:
                    waiting.answer.set_exception(error)
        del self._queues[stream]

    async def _send(self, stream: str, bodies: Sequence[bytes]) -> None:
        if self._is_down:
            if self._is_tried:
                raise _unavailable()
            self._is_tried = True
            try:
                await self._try(stream, bodies, _TRIED)
            finally:
                self._is_tried = False
            self._is_down = False
            return
        seconds, pause = RETRIED, _FIRST_PAUSE
        until = monotonic() + seconds
        while True:
            try:
                await self._try(stream, bodies, seconds)
            except StreamUnavailable:
                if monotonic() + pause >= until:
                    self._is_down = True
                    raise
            else:
                return
            await asyncio.sleep(pause)
            seconds, pause = until - monotonic(), min(2 * pause, _LONGEST_PAUSE)

    async def _try(self, stream: str, bodies: Sequence[bytes], seconds: float) -> None:
        broker = self._reached()
        if broker is None:
            began = monotonic()
            broker = await self.ask(_itself, seconds)
            seconds -= monotonic() - began
        if seconds <= 0:
            raise _unavailable()
        await broker.publish(stream, bodies, seconds)

    async def ask(self, work: Callable[[Broker], Awaitable[T]], seconds: float) -> T:
        return await answered(self._work(work), seconds)

    async def _work(self, work: Callable[[Broker], Awaitable[T]]) -> T:
        return await work(await self._reach())


class Publisher:
    """For one event loop. Its connections are closed by `close`, or with the event loop."""

    def __init__(self) -> None:
        self._brokers = Brokers()
        self._outlets: dict[tuple[str, int | None], _Outlet] = {}
        self._closing: AsyncGenerator[None, None] | None = None

    async def traits(self, settings: StreamSettings) -> Broker:
        """The broker at this address, to read its attributes: it may not be open. Raises `StreamUnavailable` if this
        process cannot use it."""
        with _Usable():
            return await self._brokers.made(settings)

    def opened(self, settings: StreamSettings) -> Broker | None:
        """The broker at this address, if it is open."""
        return self._brokers.opened(settings)

    def publish(self, settings: StreamSettings, stream: str, bodies: Sequence[bytes]) -> Coroutine[Any, Any, None]:
        """Add messages to a stream. When it raises `StreamUnavailable`, any of them may have been added."""
        return self._outlet(settings).publish(stream, bodies)

    async def ask(self, settings: StreamSettings, work: Callable[[Broker], Awaitable[T]], seconds: float) -> T:
        """Ask the broker at this address. Raises `StreamUnavailable`, also when there is no answer in time."""
        return await self._outlet(settings).ask(work, seconds)

    async def close(self) -> None:
        """Wait for publishes in progress, then close the connections. The next use opens them again."""
        if self._closing is not None:
            await self._closing.aclose()

    def _outlet(self, settings: StreamSettings) -> _Outlet:
        at = settings.address, settings.replicas
        outlet = self._outlets.get(at)
        if outlet is None:
            outlet = self._outlets[at] = _Outlet(lambda: self._brokers.opened(settings), lambda: self._reach(settings))
        return outlet

    async def _reach(self, settings: StreamSettings) -> Broker:
        if self._closing is None:
            self._closing = self._closed_with_loop()
            await anext(self._closing)
        with _Usable():
            return await self._brokers.at(settings)

    async def _closed_with_loop(self) -> AsyncGenerator[None, None]:
        """For programs that never close their app: an event loop closes its async generators when it ends."""
        try:
            yield
        finally:
            self._closing = None
            outlets, self._outlets = self._outlets, {}
            for outlet in outlets.values():
                await outlet.close()
            await self._brokers.close()


class _Usable:
    """A broker that this process cannot use, such as without its library, is a problem of the process: not of its
    callers."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, InvalidInput):
            raise StreamUnavailable(str(error)) from error


async def _itself(broker: Broker) -> Broker:
    return broker


def _unavailable() -> StreamUnavailable:
    return StreamUnavailable("the broker is unavailable")

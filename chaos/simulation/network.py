"""What lies between a process and the database: calls that are late, fail before or after they took effect, or never
arrive. The database goes on with what has reached it, whatever became of the caller."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from chaos.simulation.loop import Process
from duetime.errors import StoreUnavailable
from duetime.store.protocol import Hint, Store

DEADLINE = 10.0
"""How long a call waits for its answer."""


@dataclass
class Weather:
    """How it is between one process and the database."""

    fail_before: float = 0.0
    """The share of calls that fail and have not happened."""
    fail_after: float = 0.0
    """The share of calls that fail and have happened."""
    delay: float = 0.0
    """The longest that a call takes on either way, in seconds."""
    cut: bool = False
    """Nothing arrives, in either direction."""
    struck: int = 0

    @property
    def calm(self) -> bool:
        return not (self.fail_before or self.fail_after or self.delay or self.cut)


class Link:
    """A store as one process reaches it. Everything that the store can do, it can do; if the weather lets it."""

    embedded = True

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        process: Process,
        server: Process,
        store: Store,
        weather: Weather,
        random: Random,
    ) -> None:
        self._loop = loop
        self._process = process
        self._server = server
        self._store = store
        self._weather = weather
        self._random = random

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*args: Any, **options: Any) -> Awaitable[Any]:
            if self._weather.calm:
                answer: Awaitable[Any] = method(*args, **options)
                return answer
            return self._ask(lambda: method(*args, **options))

        self.__dict__[name] = call
        return call

    async def open(self) -> None:
        """It is open already."""

    async def close(self) -> None:
        """The database stays."""

    def companion(self) -> "Link":
        return self

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        def hear(hint: Hint) -> None:
            if not self._process.dead and not self._weather.cut:
                self._loop.call_soon(callback, hint, context=self._process.context)

        return self._store.listen(hear)

    async def _ask(self, ask: Callable[[], Any]) -> Any:
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._server.spawn(self._loop, self._carry(answer, ask))
        return await answer

    async def _carry(self, answer: asyncio.Future[Any], ask: Callable[[], Any]) -> None:
        await self._way()
        if self._random.random() < self._weather.fail_before:
            _fail(answer, self._weather, "the connection broke")
            return
        if self._weather.cut:
            await asyncio.sleep(DEADLINE)
            _fail(answer, self._weather, "no answer in time")
            return
        result, error = None, None
        try:
            result = await ask()
        except Exception as raised:
            error = raised
        await self._way()
        if self._random.random() < self._weather.fail_after:
            _fail(answer, self._weather, "the connection broke before the answer came")
            return
        if self._weather.cut:
            await asyncio.sleep(DEADLINE)
            _fail(answer, self._weather, "no answer in time")
            return
        if answer.done():
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    async def _way(self) -> None:
        if self._weather.delay:
            await asyncio.sleep(self._random.random() * self._weather.delay)


def _fail(answer: asyncio.Future[Any], weather: Weather, why: str) -> None:
    weather.struck += 1
    if not answer.done():
        answer.set_exception(StoreUnavailable(why))

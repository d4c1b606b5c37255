"""What lies between a process and the database: calls that are late, fail before or after they took effect, or never
arrive. The database goes on with what has reached it, whatever became of the caller."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from chaos.simulation.loop import Process
from duetime.errors import StoreUnavailable
from duetime.model.attempt import Completion
from duetime.store.protocol.store import ROLES, Completed, Hint, Lifecycle, Store
from duetime.store.wrappers.overlay import methods

DEADLINE = 10.0
"""How long a call waits for its answer."""


class Front(NamedTuple):
    """What one fault does to the weather."""

    fail_before: float = 0.0
    """The share of calls that fail and have not happened."""
    fail_after: float = 0.0
    """The share of calls that fail and have happened."""
    delay: float = 0.0
    """The longest that a call takes on either way, in seconds."""
    mute: bool = False
    """What is asked for is done, and no answer arrives: how a cut begins for those who had just asked."""
    cut: bool = False
    """Nothing arrives, in either direction."""
    forget: bool = False
    """The ends of runs are acknowledged and lost, as in a database that went back behind them."""


class Weather:
    """How it is between one process and the database: of all the fronts that lie there, the worst of each kind."""

    def __init__(self) -> None:
        self.now = Front()
        self.calm = True
        self.struck = 0
        """Calls that failed, or were late."""
        self._fronts: list[Front] = []

    def come(self, front: Front) -> None:
        self._fronts.append(front)
        self._change()

    def go(self, front: Front) -> None:
        self._fronts.remove(front)
        self._change()

    def _change(self) -> None:
        self.calm = not self._fronts
        self.now = Front() if self.calm else Front(*map(max, zip(*self._fronts, strict=True)))


class Link(Store):
    """A store as one process reaches it. Everything that the store can do, it can do; if the weather lets it.

    A call that began in calm weather is answered, for that costs the least: it takes a millisecond at most. What a cut
    does to calls under way, it does to those of its first moments.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        process: Process,
        server: Process,
        store: Store,
        weather: Weather,
        random: Random,
    ) -> None:
        way = _Way(loop, process, server, store, weather, random)
        roles: dict[str, Any] = {role: _FarRole(getattr(store, role), way) for role in ROLES}
        super().__init__(**{**roles, "lifecycle": _FarLifecycle(store.lifecycle, way)})

    def companion(self) -> "Link":
        return self


class _FarRole:
    """A role of the store, at the other end."""

    def __init__(self, role: object, way: "_Way") -> None:
        self.__dict__.update({name: way.calling(name, role) for name in methods(role)})


class _FarLifecycle:
    embedded = True

    def __init__(self, lifecycle: Lifecycle, way: "_Way") -> None:
        self.listen = way.listen
        self.migrate = way.calling("migrate", lifecycle)
        self.check_schema = way.calling("check_schema", lifecycle)
        self.now = way.calling("now", lifecycle)

    async def open(self) -> None:
        """It is open already."""

    async def close(self) -> None:
        """The database stays."""


class _Way:
    """The way from one process to the database and back."""

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

    def calling(self, name: str, role: object) -> Callable[..., Awaitable[Any]]:
        """A method of a role, in this weather."""

        def call(*args: Any, **options: Any) -> Awaitable[Any]:
            method = getattr(role, name)  # a mutant may have replaced it since
            if self._weather.calm:
                answer: Awaitable[Any] = method(*args, **options)
                return answer
            if self._weather.now.forget and name == "complete":
                return self._ask(lambda: self._forget(*args, **options))
            return self._ask(lambda: method(*args, **options))

        return call

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        def hear(hint: Hint) -> None:
            if not self._process.dead and not self._weather.now.cut and not self._weather.now.mute:
                self._loop.call_soon(callback, hint, context=self._process.context)

        return self._store.listen(hear)

    async def _forget(
        self, worker_id: UUID, completions: Sequence[Completion], closed_claims: Sequence[int] = ()
    ) -> Completed:
        self._weather.struck += len(completions)
        if self._random.random() < 0.5:
            await self._store.completions.complete(worker_id, [], closed_claims)
        return Completed()

    async def _ask(self, ask: Callable[[], Any]) -> Any:
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._server.spawn(self._loop, self._carry(answer, ask))
        return await answer

    async def _carry(self, answer: asyncio.Future[Any], ask: Callable[[], Any]) -> None:
        await self._delay()
        if self._random.random() < self._weather.now.fail_before:
            await self._fail(answer, "the connection broke")
            return
        if self._weather.now.cut:
            await self._fail(answer, "no answer in time", after=DEADLINE)
            return
        result, error = None, None
        try:
            result = await ask()
        except Exception as raised:
            error = raised
        await self._delay()
        if self._random.random() < self._weather.now.fail_after:
            await self._fail(answer, "the connection broke before the answer came")
            return
        if self._weather.now.cut or self._weather.now.mute:
            await self._fail(answer, "no answer in time", after=DEADLINE)
            return
        if answer.done():
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    async def _delay(self) -> None:
        if self._weather.now.delay:
            self._weather.struck += 1
            await asyncio.sleep(self._random.random() * self._weather.now.delay)

    async def _fail(self, answer: asyncio.Future[Any], why: str, *, after: float = 0.0) -> None:
        self._weather.struck += 1
        if after:
            await asyncio.sleep(after)
        if not answer.done():
            answer.set_exception(StoreUnavailable(why))

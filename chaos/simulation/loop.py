"""An event loop whose time is virtual and whose nodes take turns by chance.

Each node keeps the order of its own callbacks, as a process would; which node goes next is drawn from the seed. When
no node has anything to do, time moves to the next timer. A node that is killed never executes another line, and one
that is frozen does so only after it was thawed.
"""

import asyncio
import gc
import sys
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

_REFUSALS = 50
_SWEEP = 2_000
"""How many tasks may have ended before those are forgotten."""


class Process:
    """What a callback belongs to: one life of a node, the client, or the database."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.frozen_until = 0.0
        self.waiting: deque[Turn] = deque()
        self.context = Context()
        self.context.run(_current.set, self)

    def spawn(self, loop: asyncio.AbstractEventLoop, coroutine: Any) -> asyncio.Task[Any]:
        return loop.create_task(coroutine, context=self.context.copy())


class Turn:
    """A callback that waits for its turn; what asyncio calls a handle."""

    __slots__ = ("_when", "args", "callback", "context", "gone", "process")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context, process: Process, when: float
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.process = process
        self.gone = False
        self._when = when

    def cancel(self) -> None:
        self.gone = True

    def cancelled(self) -> bool:
        return self.gone

    def when(self) -> float:
        return self._when


_current: ContextVar[Process] = ContextVar("chaos_process")


def current_process() -> Process:
    return _current.get()


class VirtualLoop(asyncio.BaseEventLoop):
    """Keeps callbacks and timers itself: a seed has tens of thousands of them, and asyncio's own way costs more."""

    def __init__(self, random: Random, world: Process) -> None:
        super().__init__()
        self._random = random
        self._world = world
        self._now = 0.0
        self._busy: list[Process] = []
        self._timers: list[tuple[float, int, Turn]] = []
        self._numbers = count()
        self._some_frozen_until = 0.0
        self.turns = 0
        self.tasks: list[asyncio.Task[Any]] = []
        """Those of the dead must not be collected, for that would run their `finally`."""
        self._most_tasks = _SWEEP
        self.set_task_factory(_remember)

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Turn:
        context = context or copy_context()
        process = context.get(_current, self._world)
        turn = Turn(callback, args, context, process, self._now)
        self._queue(turn)
        return turn

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Turn:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Turn:
        context = context or copy_context()
        turn = Turn(callback, args, context, context.get(_current, self._world), when)
        heappush(self._timers, (when, next(self._numbers), turn))
        return turn

    def kill(self, process: Process) -> None:
        process.dead = True
        process.waiting.clear()
        if process in self._busy:
            self._busy.remove(process)

    def freeze(self, process: Process, until: float) -> None:
        process.frozen_until = until
        self._some_frozen_until = max(self._some_frozen_until, until)
        self.call_at(until, lambda: None)

    def remember(self, task: asyncio.Task[Any]) -> None:
        self.tasks.append(task)
        if len(self.tasks) > self._most_tasks:
            self.tasks = [task for task in self.tasks if not task.done()]
            self._most_tasks = len(self.tasks) + _SWEEP

    def bury(self) -> None:
        """Close what is left of all nodes. What their coroutines do about it happens here and goes nowhere."""
        asyncio._set_running_loop(self)
        self._most_tasks = sys.maxsize
        try:
            for task in self.tasks:  # which may grow meanwhile
                if not task.done():
                    _close(task.get_coro())
            self.tasks.clear()
            gc.collect()
        finally:
            asyncio._set_running_loop(None)

    def _run_once(self) -> None:
        """Run one callback at a time, of varying nodes, until the loop has to stop. The name is asyncio's."""
        busy, draw = self._busy, self._random.random
        while not self._stopping:  # type: ignore[attr-defined]
            able = busy
            if self._now < self._some_frozen_until:
                able = [process for process in busy if process.frozen_until <= self._now]
            if not able:
                self._pass_time()
                continue
            process = able[0] if len(able) == 1 else able[int(draw() * len(able))]
            turn = process.waiting.popleft()
            if not process.waiting:
                busy.remove(process)
            self.turns += 1
            if not turn.gone:
                self._take(turn)

    def _take(self, turn: Turn) -> None:
        try:
            turn.context.run(turn.callback, *turn.args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.call_exception_handler({"message": f"in {turn.callback}", "exception": error})

    def _queue(self, turn: Turn) -> None:
        process = turn.process
        if process.dead:
            return
        if not process.waiting:
            self._busy.append(process)
        process.waiting.append(turn)

    def _pass_time(self) -> None:
        timers = self._timers
        while timers and (timers[0][2].gone or timers[0][2].process.dead):
            heappop(timers)
        if not timers:
            raise RuntimeError("no node has anything left to do: the simulation would wait for ever")
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            turn = heappop(timers)[2]
            if not turn.gone:
                self._queue(turn)

    def _process_events(self, event_list: object) -> None:
        """There are no files to wait for."""

    def _write_to_self(self) -> None:
        """There are no threads to wake."""


def _close(coroutine: Any) -> None:
    """One that waits for something in its `finally` refuses at first, and is asked again."""
    for _ in range(_REFUSALS):
        try:
            coroutine.close()
        except BaseException:
            continue
        return


def _remember(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    assert isinstance(loop, VirtualLoop)
    loop.remember(task)
    return task

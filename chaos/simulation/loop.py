"""An event loop whose time is virtual and whose nodes take turns by chance.

Each node keeps the order of its own callbacks, as a process would; which node goes next is drawn from the seed. When
nobody has anything to do, time moves to the next timer. A node that is killed never executes another line, and one that
is frozen does so only after it was thawed.
"""

import asyncio
import gc
import heapq
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar
from random import Random
from typing import Any

_REFUSALS = 50


class Process:
    """What a callback belongs to: one life of a node, the client, or the database."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.frozen_until = 0.0
        self.waiting: deque[asyncio.Handle] = deque()
        self.context = Context()
        self.context.run(_current.set, self)

    def spawn(self, loop: asyncio.AbstractEventLoop, coroutine: Any) -> asyncio.Task[Any]:
        return loop.create_task(coroutine, context=self.context.copy())


_current: ContextVar[Process] = ContextVar("chaos_process")


def current_process() -> Process:
    return _current.get()


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self, random: Random, world: Process) -> None:
        super().__init__()
        self._random = random
        self._world = world
        self._now = 0.0
        self._busy: list[Process] = []
        self.turns = 0
        self.tasks: list[asyncio.Task[Any]] = []
        """All there ever were: those of the dead must not be collected, for that would run their `finally`."""
        self.set_task_factory(_remember)

    def time(self) -> float:
        return self._now

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def kill(self, process: Process) -> None:
        process.dead = True
        process.waiting.clear()

    def freeze(self, process: Process, until: float) -> None:
        process.frozen_until = until
        self.call_at(until, lambda: None)

    def bury(self) -> None:
        """Close what is left of everybody. What their coroutines do about it happens here and goes nowhere."""
        asyncio._set_running_loop(self)
        try:
            for task in self.tasks:  # which may grow meanwhile
                if not task.done():
                    _close(task.get_coro())
            self.tasks.clear()
            gc.collect()
        finally:
            asyncio._set_running_loop(None)

    def _run_once(self) -> None:
        """One callback of one node; the name is asyncio's."""
        self._sort_ready()
        able = [process for process in self._busy if process.waiting and process.frozen_until <= self._now]
        while not able:
            self._pass_time()
            self._sort_ready()
            able = [process for process in self._busy if process.waiting and process.frozen_until <= self._now]
        process = able[0] if len(able) == 1 else self._random.choice(able)
        handle = process.waiting.popleft()
        self.turns += 1
        if not handle._cancelled:
            handle._run()
        if not process.waiting:
            self._busy.remove(process)

    def _sort_ready(self) -> None:
        while self._ready:  # type: ignore[attr-defined]
            handle = self._ready.popleft()  # type: ignore[attr-defined]
            process = handle._context.get(_current, self._world)
            if process.dead or handle._cancelled:
                continue
            if not process.waiting:
                self._busy.append(process)
            process.waiting.append(handle)

    def _pass_time(self) -> None:
        scheduled: list[Any] = self._scheduled  # type: ignore[attr-defined]
        while scheduled and (scheduled[0]._cancelled or scheduled[0]._context.get(_current, self._world).dead):
            heapq.heappop(scheduled)._scheduled = False
        if not scheduled:
            raise RuntimeError("nobody has anything left to do: the simulation would wait for ever")
        self._now = max(self._now, scheduled[0].when())
        while scheduled and scheduled[0].when() <= self._now:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            self._ready.append(handle)  # type: ignore[attr-defined]

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
    loop.tasks.append(task)
    return task

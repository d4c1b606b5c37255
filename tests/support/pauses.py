"""How long one step on the event loop takes: for so long no other request is answered.

Counted in processor time of the loop's own thread, step by step: what other threads and processes do meanwhile does not
count, so that a loaded machine makes little difference.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time
from typing import Any
from unittest.mock import patch


class Pauses:
    def __init__(self, without: "asyncio.Task[Any] | None") -> None:
        self._without = without
        self.worst = 0.0
        """Seconds."""
        self.where = ""

    def step(self, run: Callable[[Any], None], handle: Any) -> None:
        began = thread_time()
        run(handle)
        took = thread_time() - began
        if took > self.worst and getattr(handle._callback, "__self__", self) is not self._without:
            self.worst, self.where = took, _name(handle)


@contextmanager
def recorded_pauses(without: "asyncio.Task[Any] | None" = None) -> Iterator[Pauses]:
    """Record every step that any loop of this process takes, but for those of one task, until the block ends.

    No garbage is collected meanwhile. A server sets aside what it has when it starts, and collects seldom; a process
    full of tests would stop in the middle of any step to look at all that they left.
    """
    pauses = Pauses(without)
    gc.collect()
    gc.disable()
    run = asyncio.Handle._run

    def step(handle: Any) -> None:
        pauses.step(run, handle)

    with patch.object(asyncio.Handle, "_run", step):
        try:
            yield pauses
        finally:
            gc.enable()


def _name(handle: Any) -> str:
    callback = handle._callback
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return repr(task.get_coro())[:120] if task.get_coro() is not None else repr(task)[:120]
    return repr(callback)[:120]

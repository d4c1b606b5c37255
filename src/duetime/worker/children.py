"""A child of the worker, as the event loop sees it.

Children are spawned, never forked. The event loop talks to them over sockets: a thread for each would spend more on
waiting for its turn than the rest of an attempt takes.

A run has begun when its function is called. A child that has to start first, or to import the module of the function,
says when it gets there; of one that has called a function of that module before, it is known.
"""

import asyncio
import multiprocessing
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnProcess
from typing import Any, cast

from duetime.clock import monotonic
from duetime.process.privacy import hidden_secrets
from duetime.worker import child
from duetime.worker.frames import NO_QUESTION, Unpacker, pack
from duetime.worker.running_attempt import Running

_spawn = multiprocessing.get_context("spawn")
_LAST_BYTES = 1.0
"""Seconds in which what a killed child had said arrives."""
_GLANCE = 0.05


class Child(asyncio.Protocol):
    def __init__(
        self,
        process: SpawnProcess,
        came: Callable[["Child"], None],
        told: Callable[["Child", str, int, Any], None],
        gone: Callable[["Child", Exception | None], None],
    ) -> None:
        self.process = process
        self.running: Running | None = None
        """What it is at."""
        self.order = 0
        """The number of that, or of what it was at last."""
        self._imported: set[str] = set()
        """The modules of which it has called a function."""
        self._start_deadline: asyncio.TimerHandle | None = None
        self._killed = False
        self._came = came
        self._told = told
        self._gone = gone
        self._unpacker = Unpacker()
        self._transport: asyncio.Transport | None = None
        self._problem: Exception | None = None

    def give(self, running: Running, order: tuple[Any, ...], start_within: float) -> None:
        """An order: the child has to call its function within some seconds."""
        self.running = running
        self.order += 1
        if _module(running) in self._imported:
            running.begin_in_time()
        else:
            late = TimeoutError(f"it did not get to the function within {start_within:g} s")
            self._start_deadline = asyncio.get_running_loop().call_later(start_within, self._fail, late)
        self._send(NO_QUESTION, (self.order, *order))

    def has_begun(self, running: Running) -> None:
        self._stop_deadline()
        self._imported.add(_module(running))
        running.begin_in_time()

    def let_go(self) -> Running | None:
        """What it was at, which is over or has to go elsewhere."""
        self._stop_deadline()
        running, self.running = self.running, None
        if running is not None:
            running.handle = None
        return running

    def answer(self, question: int, content: object) -> None:
        self._send(question, content)

    @property
    def usable(self) -> bool:
        """Whether it can be given a run: none is spent on a child that is on its way out."""
        return not self._killed and self.process.is_alive()

    def kill(self) -> None:
        self.process.kill()
        if not self._killed and self._transport is not None:
            # A copy that it has forked has its end of the socket open, and would keep it so.
            asyncio.get_running_loop().call_later(_LAST_BYTES, self._transport.abort)
        self._killed = True

    def exit_code(self, within: float) -> int | None:
        """How it ended; None where it has not ended within so many seconds. Joining alone does not tell: that waits for
        all that it has started, too."""
        deadline = monotonic() + within
        while (found := self.process.exitcode) is None and monotonic() < deadline:
            self.process.join(_GLANCE)
        return found

    def retire(self) -> None:
        """Let it end by itself."""
        assert self._transport is not None
        self._stop_deadline()
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has a class of its own
        self._came(self)

    def data_received(self, data: bytes) -> None:
        try:
            messages = self._unpacker.feed(data)
        except Exception as error:
            self._fail(error)
            return
        for kind, order, content in messages:
            self._told(self, kind, order, content)

    def connection_lost(self, error: Exception | None) -> None:
        self._gone(self, self._problem)

    def _send(self, question: int, content: object) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():  # it may have died while its answer was looked for
            self._transport.write(pack((question, content)))

    def _fail(self, problem: Exception) -> None:
        self._problem = problem
        self.kill()

    def _stop_deadline(self) -> None:
        if self._start_deadline is not None:
            self._start_deadline.cancel()
            self._start_deadline = None


def start_child() -> tuple[SpawnProcess, socket.socket]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = _spawn.Process(target=child.serve, args=(theirs, hidden_secrets()), daemon=True)
        with _ctrl_c_held_back():
            process.start()
    ours.setblocking(False)
    return process, ours


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """A terminal sends Ctrl-C to children too: what is spawned here does not hear of it until it can ignore it."""
    resource_tracker.ensure_running()  # starting it lets the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _module(running: Running) -> str:
    return running.definition.function.__module__

"""A child process of the worker, as the event loop sees it.

Children are spawned, never forked. The event loop talks to them over sockets: with a thread per child, thread switches
would take longer than the rest of an attempt.

A run has started when its function is called. A child that must first start, or import the function's module, reports
when it calls the function. A child that has called a function of that module before calls it at once.
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
"""Seconds to wait for the last messages of a killed child."""
_GLANCE = 0.05


class Child(asyncio.Protocol):
    def __init__(
        self,
        process: SpawnProcess,
        on_started: Callable[["Child"], None],
        on_message: Callable[["Child", str, int, Any], None],
        on_exit: Callable[["Child", Exception | None], None],
    ) -> None:
        self.process = process
        self.running: Running | None = None
        """The current attempt."""
        self.order = 0
        """The number of the current or last order."""
        self._imported: set[str] = set()
        """The modules of which it has called a function."""
        self._start_deadline: asyncio.TimerHandle | None = None
        self._killed = False
        self._on_started = on_started
        self._on_message = on_message
        self._on_exit = on_exit
        self._unpacker = Unpacker()
        self._transport: asyncio.Transport | None = None
        self._problem: Exception | None = None

    def give(self, running: Running, order: tuple[Any, ...], start_within: float) -> None:
        """Send an order: the child has to call the function within `start_within` seconds."""
        self.running = running
        self.order += 1
        if _module(running) in self._imported:
            running.begin_in_time()
        else:
            late = TimeoutError(f"it did not call the function within {start_within:g} s")
            self._start_deadline = asyncio.get_running_loop().call_later(start_within, self._fail, late)
        self._send(NO_QUESTION, (self.order, *order))

    def has_begun(self, running: Running) -> None:
        self._stop_deadline()
        self._imported.add(_module(running))
        running.begin_in_time()

    def let_go(self) -> Running | None:
        """Detach and return the current attempt, which has ended or needs another child."""
        self._stop_deadline()
        running, self.running = self.running, None
        if running is not None:
            running.handle = None
        return running

    def answer(self, question: int, content: object) -> None:
        self._send(question, content)

    @property
    def usable(self) -> bool:
        """Whether it can be given a run: false while the child is about to exit."""
        return not self._killed and self.process.is_alive()

    def kill(self) -> None:
        self.process.kill()
        if not self._killed and self._transport is not None:
            # A process that the child has forked holds its end of the socket open, so it would never close by itself.
            asyncio.get_running_loop().call_later(_LAST_BYTES, self._transport.abort)
        self._killed = True

    def exit_code(self, within: float) -> int | None:
        """The exit code; None when it has not exited within so many seconds. `join` is not enough: it also waits for
        every process that the child has started."""
        deadline = monotonic() + within
        while (found := self.process.exitcode) is None and monotonic() < deadline:
            self.process.join(_GLANCE)
        return found

    def retire(self) -> None:
        """Let it exit by itself."""
        assert self._transport is not None
        self._stop_deadline()
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has its own class
        self._on_started(self)

    def data_received(self, data: bytes) -> None:
        try:
            messages = self._unpacker.feed(data)
        except Exception as error:
            self._fail(error)
            return
        for kind, order, content in messages:
            self._on_message(self, kind, order, content)

    def connection_lost(self, error: Exception | None) -> None:
        self._on_exit(self, self._problem)

    def _send(self, question: int, content: object) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():  # the child may have died while its answer was looked up
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
    """Block SIGINT while spawning: a terminal sends Ctrl-C to children too, and a child must not receive it before it
    ignores it."""
    resource_tracker.ensure_running()  # starting it unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _module(running: Running) -> str:
    return running.definition.function.__module__

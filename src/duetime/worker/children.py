"""A child process of the worker, as the event loop sees it.

Children are spawned, never forked. The event loop talks to them over sockets: with a thread per child, thread switches
would take longer than the rest of an attempt.

A child may be given several orders at once. A second socket carries a ticket for each: the child takes a ticket before
it begins an order, and the worker takes tickets back. The kernel gives each ticket to one of them, so an order either
begins or comes back, never both. A child sends an outcome before it takes the next ticket. So the last order without a
ticket is the only one that can be in progress, whatever the worker has read by then, and a child that dies leaves the
tickets of everything that it has not begun.

A run has started when its function is called. A child that must first start, or import the function's module, reports
when it calls the function. A child that has called a function of that module before calls it at once.
"""

import asyncio
import multiprocessing
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple, cast

from msgspec.structs import astuple

from duetime.clock import monotonic
from duetime.process.privacy import hidden_secrets
from duetime.worker import child
from duetime.worker.child import TICKET, Batch, Kind, Order
from duetime.worker.frames import NO_QUESTION, Unpacker, pack
from duetime.worker.import_guard import child_name
from duetime.worker.middleware import carried
from duetime.worker.running_attempt import Running

_spawn = multiprocessing.get_context("spawn")
_LAST_BYTES = 1.0
"""Seconds to wait for the last messages of a killed child."""
_FIRST_GLANCE = 0.001
_GLANCE = 0.05


class Held(NamedTuple):
    """A run that a child was given, and has not ended."""

    order: int
    running: Running
    since: float
    """Since when it waits in the child."""
    began: float
    """When its timeout began to count, before it was given to the child."""


class Ends(NamedTuple):
    """The worker's ends of a child's sockets."""

    messages: socket.socket
    tickets: socket.socket
    tickets_back: socket.socket
    """The child's own end, from which tickets are taken back."""


class Child(asyncio.Protocol):
    def __init__(
        self,
        process: SpawnProcess,
        ends: Ends,
        on_started: Callable[["Child"], None],
        on_message: Callable[["Child", str, int, Any], None],
        on_read: Callable[["Child"], None],
        on_exit: Callable[["Child", Exception | None], None],
    ) -> None:
        self.process = process
        self.held: deque[Held] = deque()
        """In the order in which it takes them. As far as the worker knows, the first one is in progress."""
        self.head_since = 0.0
        """Since when the first one has been in progress."""
        self._order = 0
        """The number of the last order."""
        self._ends = ends
        self._imported: set[str] = set()
        """The modules of which it has called a function."""
        self._start_deadline: asyncio.TimerHandle | None = None
        self._start_within = 0.0
        self._killed = False
        self._on_started = on_started
        self._on_message = on_message
        self._on_read = on_read
        self._on_exit = on_exit
        self._unpacker = Unpacker()
        self._transport: asyncio.Transport | None = None
        self._problem: Exception | None = None

    def give(self, taken: Sequence[tuple[Running, float]], limits: tuple[int, int], start_within: float) -> None:
        """Send orders: the child has to call each function within `start_within` seconds, once it has begun."""
        is_idle = not self.held
        first = self._order + 1
        for running, since in taken:
            self._order += 1
            running.handle = self
            self.held.append(Held(self._order, running, since, running.began))
        self._start_within = start_within
        self._send(NO_QUESTION, _batch(first, [running for running, _ in taken], limits))
        self._ends.tickets.sendall(b"".join([TICKET.pack(order) for order in range(first, self._order + 1)]))
        if is_idle:
            self._begin_head()

    def recall(self) -> list[tuple[Running, float]]:
        """Take back the orders that it has not begun. Of those that are left, only the last can be in progress."""
        count = 0
        if self._ends.tickets_back.fileno() < 0:
            return []  # it has exited, and everything was recalled then
        try:
            while tickets := self._ends.tickets_back.recv(65536, socket.MSG_DONTWAIT):
                count += len(tickets) // TICKET.size
        except BlockingIOError:
            pass
        back = [self.held.pop() for _ in range(count)]
        for held in back:
            held.running.handle = None
            held.running.begun, held.running.began = False, held.began
        if not self.held:
            self._stop_deadline()
        return [(held.running, held.since) for held in reversed(back)]

    def may_be_doing(self, running: Running) -> bool:
        """Whether this run, of those that could not be recalled, can be in progress."""
        return bool(self.held) and self.held[-1].running is running

    def has_begun(self) -> None:
        """It calls the first function now."""
        self._stop_deadline()
        running = self.held[0].running
        self._imported.add(_module(running))
        running.begin_in_time()

    def let_go(self) -> Running:
        """Detach and return the first attempt, which has ended or needs another child. The next one begins."""
        self._stop_deadline()
        running = self.held.popleft().running
        running.handle = None
        if self.held:
            self._begin_head()
        return running

    def answer(self, question: int, content: object) -> None:
        self._send(question, content)

    @property
    def is_warm(self) -> bool:
        """Whether it has called a function before."""
        return bool(self._imported)

    @property
    def usable(self) -> bool:
        """Whether it can be given a run: false while the child is about to exit."""
        return not self._killed and self.process.is_alive()

    def kill(self) -> None:
        self.process.kill()
        if not self._killed and self._transport is not None:
            # A process that the child has forked holds its end of the socket open, so it would never close by itself.
            asyncio.get_running_loop().call_later(_LAST_BYTES, self._cut)
        self._killed = True

    def fail(self, problem: Exception) -> None:
        """Kill it: it cannot be used, for this reason."""
        self._problem = problem
        self.kill()

    async def exit_code(self, within: float) -> int | None:
        """The exit code; None when it has not exited within so many seconds. `join` would also wait for every process
        that the child has started."""
        deadline, pause = monotonic() + within, _FIRST_GLANCE
        while (found := self.process.exitcode) is None and monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _GLANCE)
        return found

    def retire(self) -> None:
        """Let it exit by itself."""
        assert self._transport is not None
        self._stop_deadline()
        self._transport.close()
        self._ends.tickets.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has its own class
        self._on_started(self)

    def data_received(self, data: bytes) -> None:
        try:
            messages = self._unpacker.feed(data)
        except Exception as error:
            self.fail(error)
            return
        for kind, order, content in messages:
            self._on_message(self, kind, order, content)
        self._on_read(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._on_exit(self, self._problem)
        self._ends.tickets.close()
        self._ends.tickets_back.close()

    def _begin_head(self) -> None:
        running = self.held[0].running
        self.head_since = monotonic()
        if _module(running) in self._imported:
            running.begin_in_time()
        else:
            late = TimeoutError(f"it did not call the function within {self._start_within:g} s")
            self._start_deadline = asyncio.get_running_loop().call_later(self._start_within, self.fail, late)

    def _send(self, question: int, content: object) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():  # the child may have died while its answer was looked up
            self._transport.write(pack((question, content)))

    def _cut(self) -> None:
        """Close the socket, after one more turn of the event loop: what the child has sent must be read first."""
        assert self._transport is not None
        asyncio.get_running_loop().call_later(_GLANCE, self._transport.abort)

    def _stop_deadline(self) -> None:
        if self._start_deadline is not None:
            self._start_deadline.cancel()
            self._start_deadline = None


async def start_child() -> tuple[SpawnProcess, Ends]:
    """Start a child, on a thread of its own: it takes long, and the event loop's default threads may all be blocked by
    tasks. No pool of threads accepts work while a program ends, and runs may still be in progress then."""
    started: Future[tuple[SpawnProcess, Ends]] = Future()
    threading.Thread(target=_start_child, args=(started,), name="duetime-process", daemon=True).start()
    return await asyncio.wrap_future(started)


def _start_child(started: "Future[tuple[SpawnProcess, Ends]]") -> None:
    if not started.set_running_or_notify_cancel():
        return  # the caller was cancelled already; from here on, cancelling it does not end this start
    try:
        started.set_result(_child())
    except BaseException as error:
        started.set_exception(error)


def _child() -> tuple[SpawnProcess, Ends]:
    messages, theirs = socket.socketpair()
    tickets, tickets_back = socket.socketpair()
    try:
        with theirs:
            arguments = (theirs, tickets_back, hidden_secrets())
            name = child_name(theirs.fileno())
            process = _spawn.Process(target=child.serve, name=name, args=arguments, daemon=True)
            with _ctrl_c_held_back():
                process.start()
    except BaseException:
        for end in (messages, tickets, tickets_back):
            end.close()
        raise
    messages.setblocking(False)
    return process, Ends(messages, tickets, tickets_back)


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


def _batch(first: int, attempts: Iterable[Running], limits: tuple[int, int]) -> Batch:
    """Orders for these attempts, numbered from `first`. Ids are sent as bytes: pickling a UUID takes longer than the
    rest."""
    kinds: list[Kind] = []
    places: dict[tuple[int, int], int] = {}
    orders: list[Order] = []
    for number, running in enumerate(attempts, first):
        definition, lane = running.definition, running.lane
        shared = id(definition), id(lane)
        place = places.get(shared)
        if place is None:
            place = places[shared] = len(kinds)
            function = definition.function
            around = tuple(map(carried, definition.around))
            name = (function.__module__, function.__qualname__)
            kinds.append((*name, lane.task, lane.queue, lane.tenant_id, limits, around))
        run_id, job_id, *fields = astuple(running.claimed)
        orders.append((number, place, run_id.bytes, job_id.bytes, tuple(fields), running.traceparent))
    return kinds, orders


def _module(running: Running) -> str:
    return running.definition.function.__module__

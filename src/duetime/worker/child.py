"""The code inside a child process: takes attempts, one at a time, and answers each with its outcome at once."""

import asyncio
import importlib
import logging
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context as Variables
from contextvars import copy_context
from datetime import datetime
from functools import cache, lru_cache, partial
from socket import socket
from struct import Struct
from typing import Any
from uuid import UUID

from duetime.errors import ImportedByChild, LeaseLost
from duetime.model.attempt import Claimed, RunNote
from duetime.model.completion import PLAIN
from duetime.model.dependency import Parent
from duetime.model.outcome import Outcome
from duetime.process.privacy import take_secrets
from duetime.worker import outcomes
from duetime.worker.attempt_log import AttemptLog
from duetime.worker.context import SyncContext, current
from duetime.worker.frames import Pipe
from duetime.worker.import_guard import importing, never_starts
from duetime.worker.middleware import Carried, Middleware, run_around
from duetime.worker.task import TaskDefinition, define

_ANY_WORKER = UUID(int=0)
_OBJECTS = 64
"""How many middlewares are kept. One whose object changes is pickled anew."""

TICKET = Struct("=Q")
"""The number of an order that the child may begin."""

Kind = tuple[str, str, str, str, int, tuple[int, int], tuple[Carried, ...]]
"""What many orders share: the function's module and name, the task, the queue, the tenant, the limits of results and
of log lines, and the middleware."""
Order = tuple[int, int, bytes, bytes, tuple[Any, ...], str | None]
"""Its number, the place of its kind in the batch, the ids of its run and its job, the other fields of the claim, and
its trace. Messages about the attempt carry the number. A thread that a function left behind sends the number of its own
order, which has ended."""
Batch = tuple[list[Kind], list[Order]]


def serve(end: socket, tickets: socket, hidden: dict[str, str] | None) -> None:
    """Serve until the other side closes. Signals are ignored: the worker kills this process."""
    take_secrets(hidden)
    for each in (end, tickets):
        each.set_inheritable(False)  # a command that outlives this process must not keep it open
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the parent blocked it during the start
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, name="duetime-parent", daemon=True).start()
    # The worker gets these lines. Without a handler, Python would also write the warnings to standard error.
    logging.getLogger("duetime.task").addHandler(logging.NullHandler())
    pipe = Pipe(end)
    orders = _Orders(pipe, tickets)
    imported: set[str] = set()
    while True:
        try:
            attempt = orders.next()
        except (EOFError, OSError):
            return
        outcome = _attempt(attempt, imported)
        # It must have left before the next order begins: the worker derives from it what this process is doing.
        pipe.send(("outcome", attempt.order, None if outcome is PLAIN else outcome))


def _end_with_parent() -> None:
    """End when the worker dies: the outcome could not be reported, and another worker will start the run again."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)


class _Orders:
    """The orders that were received, each of which needs its ticket."""

    def __init__(self, pipe: Pipe, tickets: socket) -> None:
        self._pipe = pipe
        self._tickets = tickets
        self._received: deque[tuple[Kind, Order]] = deque()

    def next(self) -> "_Attempt":
        """The next order that may begin. Raises `EOFError` when there will be none."""
        ticket = self._tickets.recv(TICKET.size)
        if not ticket:
            raise EOFError
        (number,) = TICKET.unpack(ticket)
        while True:
            while self._received:
                kind, order = self._received.popleft()
                if order[0] == number:
                    return _Attempt(self._pipe, kind, order)
                # The worker has taken back the tickets of those before it.
            kinds, orders = self._pipe.order()
            self._received.extend((kinds[order[1]], order) for order in orders)


class _Attempt:
    """One attempt. Its context is created when it is asked for."""

    __slots__ = ("_context", "_order", "_pipe", "args", "kind", "log", "order")

    def __init__(self, pipe: Pipe, kind: Kind, order: Order) -> None:
        self._pipe = pipe
        self._order = order
        self._context: SyncContext | None = None
        self.kind = kind
        self.order = order[0]
        self.args: bytes = order[4][_ARGS]
        self.log = _ForwardingLog(kind[2], kind[5][1], self.send)

    def send(self, what: str, content: object) -> None:
        self._pipe.send((what, self.order, content))

    def context(self) -> SyncContext:
        if self._context is None:
            _, _, task, queue, tenant_id, _, _ = self.kind
            number, _, run_id, job_id, fields, traceparent = self._order
            claimed = Claimed(UUID(bytes=run_id), UUID(bytes=job_id), *fields)
            context = SyncContext(claimed, _ANY_WORKER, task, queue, self.log, _Notebook(self._pipe, number))
            context.tenant_id, context.traceparent = tenant_id, traceparent
            self._context = context
        return self._context


_ARGS = Claimed.__struct_fields__.index("args") - 2
"""Its place among the other fields of a claim."""


def _attempt(attempt: _Attempt, imported: set[str]) -> Outcome:
    module, qualname, task, _, _, (max_result, _), around = attempt.kind
    runner = _Runner()
    try:
        middlewares = [find_middleware(*each) for each in around]  # first: it may prepare the process for the task
        definition = find_definition(task, module, qualname)
        if module not in imported:
            imported.add(module)
            attempt.send("begun", None)
        current.set(attempt.context)
        call = partial(definition.call, attempt.args, attempt.context)
        value = run_around(middlewares, attempt.context, copy_context(), runner.run, call)
        return outcomes.from_value(value, definition, attempt.log, max_result)
    except ImportedByChild as error:
        return never_starts(error)
    except Exception as error:
        return outcomes.from_exception(error)
    finally:
        runner.close()


class _Runner:
    """Runs coroutines of one attempt on an event loop, which is made for the first one."""

    __slots__ = ("_runner",)

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def run(self, work: Coroutine[Any, Any, object], variables: Variables) -> object:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(work, context=variables)

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()


def _found(module: str, qualname: str) -> Any:
    with importing():
        found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


@lru_cache(_OBJECTS)
def find_middleware(module: str, qualname: str, content: bytes | str | None) -> Middleware:
    if isinstance(content, bytes):
        with importing():
            return pickle.loads(content)  # type: ignore[no-any-return]
    if content is not None:
        raise RuntimeError(f"the middleware {qualname} cannot be pickled for a child process: {content}")
    try:
        return _found(module, qualname)  # type: ignore[no-any-return]
    except (ImportError, AttributeError) as error:
        text = f"the middleware {qualname} cannot be imported from {module} in a child process: {error}"
        raise RuntimeError(f"{text} (define it at the top level of its module)") from None


@cache
def find_definition(task: str, module: str, qualname: str) -> TaskDefinition:
    """The task of a function by the function's name. A task object may have replaced the function."""
    found = _found(module, qualname)
    definition = getattr(found, "definition", None)
    return definition if isinstance(definition, TaskDefinition) else define(task, found, process=True)


class _Notebook:
    """Forwards progress reports to the worker on the other side of the pipe, which knows the run."""

    def __init__(self, pipe: Pipe, order: int) -> None:
        self._pipe = pipe
        self._order = order

    def remember(self, worker_id: UUID, note: RunNote) -> None:
        self._pipe.send(("progress", self._order, note))

    def save(self, worker_id: UUID, note: RunNote) -> None:
        problem: str | None = self._pipe.ask("checkpoint", self._order, note)
        if problem is not None:
            raise LeaseLost(problem)

    def parents(self, worker_id: UUID, run_id: UUID) -> list[Parent]:
        answer: list[Parent] | str = self._pipe.ask("parents", self._order, None)
        if isinstance(answer, str):
            raise LeaseLost(answer)
        return answer


class _ForwardingLog(AttemptLog):
    """The log of an attempt whose lines are kept on the other side of the pipe."""

    __slots__ = ("_forward",)

    def __init__(self, task: str, max_lines: int, forward: Callable[[str, tuple[datetime, str, str]], None]) -> None:
        super().__init__(task, max_lines)
        self._forward = forward

    def add(self, when: datetime, level: str, text: str) -> None:
        self._forward("log", (when, level, text))

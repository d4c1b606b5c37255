"""The code inside a child process: takes attempts from the pipe, one at a time, and answers with their outcomes."""

import asyncio
import importlib
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextvars import copy_context
from datetime import datetime
from functools import cache, partial
from socket import socket
from typing import Any
from uuid import UUID

from duetime.errors import LeaseLost
from duetime.model.attempt import Claimed, RunNote
from duetime.model.dependency import Parent
from duetime.model.outcome import Outcome
from duetime.process.privacy import take_secrets
from duetime.worker import outcomes
from duetime.worker.attempt_log import AttemptLog
from duetime.worker.context import SyncContext, current
from duetime.worker.frames import Pipe
from duetime.worker.middleware import Middleware, RunOnLoop, run_around
from duetime.worker.task import TaskDefinition, define

_ANY_WORKER = UUID(int=0)

Order = tuple[int, str, str, Claimed, str, str, tuple[int, int], tuple[int, str | None], tuple[tuple[str, str], ...]]
"""The first item is the order's number, the last names the middleware. Messages about the attempt carry the number. A
thread that a function left behind sends the number of its own order, which has ended."""


def serve(end: socket, hidden: dict[str, str] | None) -> None:
    """Serve until the other side closes. Signals are ignored: the worker kills this process."""
    take_secrets(hidden)
    end.set_inheritable(False)  # a command that outlives this process must not keep it open
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the parent blocked it during the start
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, name="duetime-parent", daemon=True).start()
    pipe = Pipe(end)
    imported: set[str] = set()
    while True:
        try:
            order: Order = pipe.order()
        except (EOFError, OSError):
            return
        pipe.send(("outcome", order[0], _attempt(pipe, order, imported)))


def _end_with_parent() -> None:
    """End when the worker dies: the outcome could not be reported, and another worker will start the run again."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)


def _attempt(pipe: Pipe, order: Order, imported: set[str]) -> Outcome:
    number, module, qualname, claimed, task, queue, (max_result, max_log_lines), whose, around = order
    attempt_log = _ForwardingLog(task, max_log_lines, lambda line: pipe.send(("log", number, line)))
    context = SyncContext(claimed, _ANY_WORKER, task, queue, attempt_log, _Notebook(pipe, number))
    context.tenant_id, context.traceparent = whose
    try:
        definition = find_definition(task, module, qualname)
        middlewares = [find_middleware(*name) for name in around]
        if module not in imported:
            imported.add(module)
            pipe.send(("begun", number, None))
        current.set(lambda: context)
        call = partial(definition.call, claimed.args, lambda: context)
        with asyncio.Runner() as runner:  # it makes an event loop when it needs one
            value = run_around(middlewares, context, copy_context(), _run_on(runner), call)
        return outcomes.from_value(value, definition, attempt_log, max_result)
    except Exception as error:
        return outcomes.from_exception(error)


def _run_on(runner: asyncio.Runner) -> RunOnLoop:
    return lambda work, variables: runner.run(work, context=variables)


def _found(module: str, qualname: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


@cache
def find_middleware(module: str, qualname: str) -> Middleware:
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

    def __init__(self, task: str, max_lines: int, forward: Callable[[tuple[datetime, str, str]], None]) -> None:
        super().__init__(task, max_lines)
        self._forward = forward

    def add(self, when: datetime, level: str, text: str) -> None:
        self._forward((when, level, text))


logging.getLogger("duetime").addHandler(logging.NullHandler())

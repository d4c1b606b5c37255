"""Plain functions, in threads.

A thread cannot be stopped from outside: it is told through its context, and keeps its slot until it really ends. The
threads are daemons, so that a function that never returns cannot keep the process from ending.
"""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Callable
from contextlib import nullcontext
from queue import SimpleQueue
from uuid import UUID

from duetime.model import json
from duetime.model.attempt import RunNote
from duetime.model.dependency import Parent
from duetime.model.outcome import Outcome
from duetime.worker import outcomes
from duetime.worker.context import SyncContext, current
from duetime.worker.executor import Finished
from duetime.worker.notes import Notes
from duetime.worker.running import Running

SAVE_DEADLINE = 30.0


class ThreadRoom:
    """Threads that take the next piece of work; started when they are first needed, at most `size`."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)

    def do(self, work: Callable[[], None]) -> None:
        self._work.put(work)
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._size:
            thread = threading.Thread(target=self._serve, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        for _ in self._threads:
            self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work
            self._idle.release()


class ThreadExecutor:
    def __init__(self, size: int, notes: Notes, finished: Finished, max_result: int) -> None:
        self._room = ThreadRoom(size, "duetime-task")
        self._notebook = _Notebook(notes)
        self._finished = finished
        self._max_result = max_result
        self._loop = asyncio.get_running_loop()

    def start(self, running: Running) -> None:
        running.begun = True  # a thread may take it at any moment, and looks at nothing before
        running.make_context = self._new_context
        context = running.context()
        assert isinstance(context, SyncContext)
        self._room.do(lambda: self._attempt(running, context))

    def stop(self, running: Running) -> None:
        context = running.context_if_made
        if isinstance(context, SyncContext):
            context.stop_requested.set()

    def close(self) -> None:
        self._room.close()

    def _attempt(self, running: Running, context: SyncContext) -> None:
        outcome = contextvars.Context().run(self._call, running, context)
        # Once the event loop is closed the process is ending, and the run was handed back.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finished, running, outcome)

    def _call(self, running: Running, context: SyncContext) -> Outcome:
        definition = running.definition
        try:
            arguments = json.decode(running.claimed.args)
            current.set(running.context)
            if definition.context_name is not None:
                arguments[definition.context_name] = context
            with nullcontext() if running.span is None else running.span.active():
                value = definition.function(**arguments)
            if inspect.iscoroutine(value):
                value.close()
                raise TypeError("a plain function returned a coroutine: make the outermost function an async def")
            return outcomes.from_value(value, running.attempt_log, self._max_result)
        except BaseException as error:
            return outcomes.from_exception(error)

    def _new_context(self, running: Running) -> SyncContext:
        lane, log = running.lane, running.attempt_log
        return SyncContext(running.claimed, running.session.id, lane.task, lane.queue, log, self._notebook)


class _Notebook:
    """The notes of a worker, as its threads reach them."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._loop = asyncio.get_running_loop()

    def remember(self, worker_id: UUID, note: RunNote) -> None:
        self._loop.call_soon_threadsafe(self._notes.remember, worker_id, note)

    def save(self, worker_id: UUID, note: RunNote) -> None:
        saving = asyncio.run_coroutine_threadsafe(self._notes.save(worker_id, note), self._loop)
        saving.result(SAVE_DEADLINE)

    def parents(self, worker_id: UUID, run_id: UUID) -> list[Parent]:
        asking = asyncio.run_coroutine_threadsafe(self._notes.parents(worker_id, run_id), self._loop)
        return asking.result(SAVE_DEADLINE)

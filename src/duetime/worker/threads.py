"""Plain functions, in threads.

A thread cannot be stopped from outside. It is asked through its context, and keeps its slot until it really ends. The
threads are daemons, so that a function that never returns cannot keep the process alive.

A thread takes one run after the other, without a switch in between. While runs wait, another thread stands by and takes
over as soon as the first one waits for something. Functions that only compute are left to one thread, because the
interpreter runs one at a time: to hand each run to another thread would take longer than a short function.
"""

import asyncio
import contextlib
import contextvars
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple
from uuid import UUID

from duetime.clock import monotonic
from duetime.model.attempt import RunNote
from duetime.model.dependency import Parent
from duetime.model.outcome import Outcome
from duetime.worker import outcomes
from duetime.worker.backlog import GIVEN_BACK, MOST_AHEAD, STOPPED, Backlog
from duetime.worker.context import SyncContext, current
from duetime.worker.executor import Finished
from duetime.worker.middleware import run_around
from duetime.worker.prefetch import Prefetch
from duetime.worker.progress_reports import ProgressReports
from duetime.worker.running_attempt import Running

SAVE_DEADLINE = 30.0
_PAUSE = 0.002
"""Seconds until a thread that stands by looks again."""


class ThreadExecutor:
    """Threads that take the next waiting run. They start on demand, at most `size` of them."""

    def __init__(
        self, size: int, notes: ProgressReports, finished: Finished, claim_ahead: Callable[[int], None], max_result: int
    ) -> None:
        self._size = size
        self._progress_sink = _Notebook(notes)
        self._finished = finished
        self._prefetch = Prefetch(size, MOST_AHEAD, claim_ahead)
        self._max_result = max_result
        self._loop = asyncio.get_running_loop()
        self._waiting = Backlog(lambda: True, self._give_back)
        self._wakes: SimpleQueue[_Wake | None] = SimpleQueue()
        """One for each thread that must wake up, None for each that must exit."""
        self._guard = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._asleep = 0
        self._one_stands_by = False
        """Whether a thread is awake, or will be, and has not taken a run."""
        self._begun = 0
        """Changes when a thread begins a run."""
        self._closed = False
        self._held = 0
        """How many runs it has accepted and not ended."""
        self._make_context = self._new_context  # bound once, not for each run
        self._ended: deque[tuple[Running, Outcome]] = deque()
        """Ended attempts that the event loop has not processed yet."""
        self._is_called = False
        """Whether the event loop is scheduled to process them."""
        self._steps: set[asyncio.Task[None]] = set()
        """Parts of async middleware, which run on the event loop."""

    def start(self, running: Running) -> None:
        running.make_context = self._make_context
        if not self._held:
            self._prefetch.busy()
        self._held += 1
        self._waiting.add(running)
        if not self._one_stands_by:
            self._stand_by()

    def stop(self, running: Running) -> None:
        if self._waiting.withdraw(running):
            self._loop.call_soon(self._end, running, STOPPED)
            return
        running.begun = True  # a thread has taken it, and may not have reported that yet
        context = running.context()
        assert isinstance(context, SyncContext)
        context.stop_requested.set()

    def close(self) -> None:
        self._waiting.close()
        with self._guard:
            self._closed = True
            for _ in self._threads:
                self._wakes.put(None)

    def _stand_by(self) -> None:
        """Wake or start a thread, if there is one that has nothing to do."""
        with self._guard:
            if self._one_stands_by or self._closed:
                return
            wake = _Wake(self._begun, monotonic())
            if self._asleep:
                self._asleep -= 1
                self._one_stands_by = True
                self._wakes.put(wake)
            elif len(self._threads) < self._size:
                self._one_stands_by = True
                self._start_thread(wake)
            # Otherwise, the next thread whose run ends takes another one.

    def _start_thread(self, wake: "_Wake") -> None:
        name = f"duetime-task-{len(self._threads)}"
        thread = threading.Thread(target=self._serve, args=(wake,), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the machine has no room for another thread
            self._one_stands_by = False
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    # The methods below run in threads.

    def _serve(self, wake: "_Wake | None") -> None:
        while wake is not None:
            while self._waiting and not self._is_useful(wake):
                wake = _Wake(self._begun, monotonic() + _PAUSE)
                time.sleep(_PAUSE)
            self._one_stands_by = False
            self._take_all()
            wake = self._wakes.get()

    def _is_useful(self, wake: "_Wake") -> bool:
        """Whether a thread that was woken, or paused, can do more than take the interpreter from another one. It had to
        wait for the interpreter if that one computes."""
        return self._begun == wake.begun or monotonic() - wake.at < sys.getswitchinterval() / 2

    def _take_all(self) -> None:
        """Take waiting runs until none is left. Then this thread counts as asleep."""
        while True:
            while (running := self._waiting.take()) is not None:
                self._begun += 1
                if self._waiting and not self._one_stands_by:
                    self._stand_by()
                self._attempt(running)
            with self._guard:
                if not self._waiting:  # else one was added meanwhile, and no thread was asleep
                    self._asleep += 1
                    return

    def _attempt(self, running: Running) -> None:
        running.begin_in_time()
        variables = contextvars.Context()
        plain = not running.definition.around
        outcome = variables.run(self._call, running) if plain else self._call_around(running, variables)
        self._ended.append((running, outcome))
        if self._is_called:
            return  # the event loop clears the flag before it reads, so the next end schedules it again
        self._is_called = True
        # Once the event loop is closed the process is ending, and the run was handed back.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._check)

    def _call(self, running: Running) -> Outcome:
        try:
            current.set(running.context)
            with nullcontext() if running.span is None else running.span.active():
                value = _value_of(running)
            return outcomes.from_value(value, running.definition, running.attempt_log, self._max_result)
        except BaseException as error:
            running.error = error
            return outcomes.from_exception(error)

    def _call_around(self, running: Running, variables: contextvars.Context) -> Outcome:
        """The same with middleware. Each step enters the variables anew: an async step enters them on the event
        loop."""
        definition = running.definition
        active = nullcontext() if running.span is None else running.span.active()
        try:
            variables.run(current.set, running.context)
            variables.run(active.__enter__)
            try:
                call = partial(_value_of, running)
                value = run_around(definition.around, running.context, variables, self._run_on_loop, call)
            finally:
                variables.run(active.__exit__, None, None, None)
            return variables.run(outcomes.from_value, value, definition, running.attempt_log, self._max_result)
        except BaseException as error:
            running.error = error
            return outcomes.from_exception(error)

    def _run_on_loop(self, work: Coroutine[Any, Any, object], variables: contextvars.Context) -> object:
        done: Future[object] = Future()

        async def settle() -> None:
            try:
                done.set_result(await work)
            except BaseException as error:
                done.set_exception(error)

        def begin() -> None:
            task = self._loop.create_task(settle(), context=variables)
            self._steps.add(task)
            task.add_done_callback(self._steps.discard)

        self._loop.call_soon_threadsafe(begin)
        return done.result()

    # The methods below run on the event loop.

    def _check(self) -> None:
        self._is_called = False
        while self._ended:
            running, outcome = self._ended.popleft()
            self._prefetch.ended(running)
            try:
                self._end(running, outcome)
            except BaseException:
                self._loop.call_soon(self._check)  # the remaining ended attempts must be processed too
                raise

    def _give_back(self, late: list[Running]) -> None:
        self._prefetch.reset()
        for running in late:
            self._end(running, GIVEN_BACK)

    def _end(self, running: Running, outcome: Outcome) -> None:
        self._held -= 1
        if not self._held:
            self._prefetch.idle()
        self._finished(running, outcome)

    def _new_context(self, running: Running) -> SyncContext:
        lane, log = running.lane, running.attempt_log
        return SyncContext(running.claimed, running.session.id, lane.task, lane.queue, log, self._progress_sink)


def _value_of(running: Running) -> object:
    value = running.definition.call(running.claimed.args, running.context)
    if isinstance(value, Coroutine):
        value.close()
        raise TypeError("a plain function returned a coroutine: make the outermost function an async def")
    return value


class _Wake(NamedTuple):
    begun: int
    at: float


class _Notebook:
    """A worker's progress reports, as its threads reach them."""

    def __init__(self, notes: ProgressReports) -> None:
        self._progress_reports = notes
        self._loop = asyncio.get_running_loop()

    def remember(self, worker_id: UUID, note: RunNote) -> None:
        self._loop.call_soon_threadsafe(self._progress_reports.remember, worker_id, note)

    def save(self, worker_id: UUID, note: RunNote) -> None:
        saving = asyncio.run_coroutine_threadsafe(self._progress_reports.save(worker_id, note), self._loop)
        saving.result(SAVE_DEADLINE)

    def parents(self, worker_id: UUID, run_id: UUID) -> list[Parent]:
        asking = asyncio.run_coroutine_threadsafe(self._progress_reports.parents(worker_id, run_id), self._loop)
        return asking.result(SAVE_DEADLINE)

"""Functions with `process=True`, each in a process of its own that can be killed.

Children are spawned, never forked, and kept for the next attempt. A thread of the worker talks to each child over a
pipe; killing the child is how an attempt is stopped, and a child that dies ends its own attempt only.

Where functions are short, a few runs wait here for the next free child. If they wait for longer than they should,
because a longer one came in between, they are given back for others to take.
"""

import asyncio
import contextlib
import multiprocessing
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from duetime.clock import monotonic
from duetime.model.attempt import Claimed, RunNote
from duetime.model.dependency import Parent
from duetime.model.failure import Failure, FailureClass
from duetime.model.outcome import Cancelled, Failed, Outcome, Snoozed
from duetime.worker import child
from duetime.worker.executor import Finished
from duetime.worker.notes import Notes
from duetime.worker.pace import Pace
from duetime.worker.running import Running
from duetime.worker.threads import SAVE_DEADLINE, ThreadRoom

_spawn = multiprocessing.get_context("spawn")
_PATIENCE = 0.25
"""How long a run may wait here for a child."""
_GIVEN_BACK = Snoozed(timedelta(0))


class Child:
    """A spawned process and the pipe to it."""

    def __init__(self) -> None:
        ours, theirs = _spawn.Pipe()
        self.pipe: Connection[Any, Any] = ours
        self.process: SpawnProcess = _spawn.Process(target=child.serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def kill(self) -> None:
        self.process.kill()

    def retire(self) -> None:
        """Let it end by itself."""
        self.pipe.close()


class ProcessExecutor:
    def __init__(
        self,
        size: int,
        notes: Notes,
        finished: Finished,
        claim_ahead: Callable[[int], None],
        max_result: int,
        max_log_lines: int,
    ) -> None:
        self._room = ThreadRoom(size, "duetime-process")
        self._size = size
        self._notes = notes
        self._finished = finished
        self._claim_ahead = claim_ahead
        self._pace = Pace(size)
        self._limits = (max_result, max_log_lines)
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: dict[Running, float] = {}
        """Since when those wait that have not begun, the first one first."""
        self._watch: asyncio.TimerHandle | None = None
        self._busy = 0
        """How many have begun and not ended."""
        self._idle: list[Child] = []
        self._closed = False

    def start(self, running: Running) -> None:
        running.waits = True
        with self._lock:
            self._waiting[running] = monotonic()
        self._room.do(lambda: self._attempt(running))
        if self._watch is None:
            self._watch = self._loop.call_later(_PATIENCE, self._give_back_late)

    def stop(self, running: Running) -> None:
        with self._lock:
            if isinstance(running.handle, Child):
                running.handle.kill()
            waited = self._waiting.pop(running, None) is not None
        if waited:
            self._loop.call_soon_threadsafe(self._finished, running, Cancelled("it was stopped before it began"))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        if self._watch is not None:
            self._watch.cancel()
        for each in idle:
            each.retire()
        self._room.close()

    def _give_back_late(self) -> None:
        enough = monotonic() - _PATIENCE
        with self._lock:
            all_busy = self._busy >= self._size
            late = [running for running, since in self._waiting.items() if all_busy and since <= enough]
            for running in late:
                del self._waiting[running]
            self._watch = self._loop.call_later(_PATIENCE, self._give_back_late) if self._waiting else None
        if late:
            self._claim_ahead(0)
        for running in late:
            self._finished(running, _GIVEN_BACK)

    def _attempt(self, running: Running) -> None:
        with self._lock:
            if self._waiting.pop(running, None) is None:
                return  # it was stopped, or given back
            self._busy += 1
            running.began = monotonic()
            running.waits = False
        try:
            outcome = self._talk(running)
        except Exception as error:
            outcome = Failed(Failure(FailureClass.ERROR, f"its process could not be used: {error!r}"))
        with self._lock:
            self._busy -= 1
        # Once the event loop is closed the process is ending, and the run was handed back.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._ended, running, outcome, monotonic() - running.began)

    def _ended(self, running: Running, outcome: Outcome, took: float) -> None:
        self._claim_ahead(self._pace.ahead(took))
        self._finished(running, outcome)

    def _talk(self, running: Running) -> Outcome:
        worker = self._take()
        with self._lock:
            running.handle = worker
            if running.stop is not None:
                worker.kill()
        try:
            worker.pipe.send(_order(running, self._limits))
            while True:
                kind, content = worker.pipe.recv()
                match kind:
                    case "progress":
                        self._loop.call_soon_threadsafe(self._notes.remember, running.session.id, content)
                    case "checkpoint":
                        worker.pipe.send(self._save(running, content))
                    case "parents":
                        worker.pipe.send(self._parents(running))
                    case "log":
                        running.attempt_log.add(*content)
                    case "outcome":
                        self._keep(worker)
                        return content  # type: ignore[no-any-return]
        except (EOFError, OSError):
            worker.process.join(5)
            worker.retire()
            return Failed(Failure(FailureClass.ERROR, f"its process ended: {_how(worker.process.exitcode)}"))
        finally:
            with self._lock:
                running.handle = None

    def _save(self, running: Running, note: RunNote) -> str | None:
        saving = asyncio.run_coroutine_threadsafe(self._notes.save(running.session.id, note), self._loop)
        try:
            saving.result(SAVE_DEADLINE)
        except Exception as error:
            return str(error)
        return None

    def _parents(self, running: Running) -> list[Parent] | str:
        asking = self._notes.parents(running.session.id, running.claimed.run_id)
        try:
            return asyncio.run_coroutine_threadsafe(asking, self._loop).result(SAVE_DEADLINE)
        except Exception as error:
            return str(error)

    def _take(self) -> Child:
        with self._lock:
            while self._idle:
                found = self._idle.pop()
                if found.process.is_alive():
                    return found
        return Child()

    def _keep(self, worker: Child) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(worker)
                return
        worker.retire()


def _order(
    running: Running, limits: tuple[int, int]
) -> tuple[str, str, Claimed, str, str, str | None, tuple[int, int], tuple[int, str | None]]:
    function = running.definition.function
    return (
        function.__module__,
        function.__qualname__,
        running.claimed,
        running.lane.task,
        running.lane.queue,
        running.definition.context_name,
        limits,
        (running.lane.tenant_id, running.traceparent),
    )


def _how(exitcode: int | None) -> str:
    if exitcode is None:
        return "it does not answer"
    if exitcode < 0:
        return f"killed by {signal.Signals(-exitcode).name}"
    return f"exit code {exitcode}"

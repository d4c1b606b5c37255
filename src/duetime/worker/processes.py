"""Functions with `process=True`, each in a process of its own that can be killed.

Children are spawned, never forked, and kept for the next attempt. A thread of the worker talks to each child over a
pipe; killing the child is how an attempt is stopped, and a child that dies ends its own attempt only.
"""

import asyncio
import contextlib
import multiprocessing
import signal
import threading
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from duetime.model.attempt import Claimed, RunNote
from duetime.model.dependency import Parent
from duetime.model.failure import Failure, FailureClass
from duetime.model.outcome import Failed, Outcome
from duetime.worker import child
from duetime.worker.executor import Finished
from duetime.worker.notes import Notes
from duetime.worker.running import Running
from duetime.worker.threads import SAVE_DEADLINE, ThreadRoom

_spawn = multiprocessing.get_context("spawn")


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
    def __init__(self, size: int, notes: Notes, finished: Finished, max_result: int, max_log_lines: int) -> None:
        self._room = ThreadRoom(size, "duetime-process")
        self._notes = notes
        self._finished = finished
        self._limits = (max_result, max_log_lines)
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._closed = False

    def start(self, running: Running) -> None:
        self._room.do(lambda: self._attempt(running))

    def stop(self, running: Running) -> None:
        with self._lock:
            if isinstance(running.handle, Child):
                running.handle.kill()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for each in idle:
            each.retire()
        self._room.close()

    def _attempt(self, running: Running) -> None:
        try:
            outcome = self._talk(running)
        except Exception as error:
            outcome = Failed(Failure(FailureClass.ERROR, f"its process could not be used: {error!r}"))
        # Once the event loop is closed the process is ending, and the run was handed back.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finished, running, outcome)

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

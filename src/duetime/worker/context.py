"""The context of an attempt: what a task can read and report while it runs.

A task asks for it with a parameter called `ctx`, or annotated with one of these classes. Async functions get a
`Context`. Plain functions, in threads or processes, get a `SyncContext`, whose methods block.
"""

import logging
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import UUID

from duetime.errors import LeaseLost
from duetime.ids import show
from duetime.model import json
from duetime.model.attempt import Claimed, RunNote
from duetime.model.dependency import Parent
from duetime.model.failure import bounded
from duetime.worker.attempt_log import AttemptLog
from duetime.worker.parent_results import Returning, find_result

R = TypeVar("R")
Provider = Callable[[], "BaseContext"]
current: ContextVar[Provider] = ContextVar("duetime_context")
"""Creates the context of the current attempt on demand: most tasks never ask for it."""

MESSAGE_LIMIT = 500


class ProgressSink(Protocol):
    """Takes a task's progress and checkpoints, and answers its questions."""

    def remember(self, worker_id: UUID, note: RunNote) -> None: ...

    async def save(self, worker_id: UUID, note: RunNote, *, in_transaction: bool) -> None: ...

    async def parents(self, worker_id: UUID, run_id: UUID) -> list[Parent]: ...


class SyncProgressSink(Protocol):
    """The same, blocking."""

    def remember(self, worker_id: UUID, note: RunNote) -> None: ...

    def save(self, worker_id: UUID, note: RunNote) -> None: ...

    def parents(self, worker_id: UUID, run_id: UUID) -> list[Parent]: ...


CompleteWithin = Callable[[Any, UUID, Claimed, bytes | None, bytes | None], Awaitable[None]]
"""Completes a run inside a transaction. Arguments: connection, worker, run, result, logs."""


class BaseContext:
    """What both kinds of context share. One is created for each run whose task asks for it. It must not be part of a
    reference cycle: millions of them would be left to the garbage collector."""

    __slots__ = ("_claimed", "_log", "_worker_id", "queue", "task", "tenant_id", "traceparent")

    def __init__(self, claimed: Claimed, worker_id: UUID, task: str, queue: str, attempt_log: AttemptLog) -> None:
        self._claimed = claimed
        self._worker_id = worker_id
        self.task = task
        self.queue = queue
        self._log = attempt_log
        self.tenant_id = 0
        self.traceparent: str | None = None
        """The span of this attempt. Without tracing, the trace that its job was submitted in. Pass it on in calls to
        other services."""

    @property
    def run_id(self) -> str:
        return show("run", self._claimed.run_id)

    @property
    def job_id(self) -> str:
        return show("job", self._claimed.job_id)

    @property
    def token(self) -> str:
        """The same for every attempt of this run: pass it as an idempotency key to services that must not repeat an
        effect."""
        return self.run_id

    @property
    def attempt(self) -> int:
        """The number of this attempt, starting at 1. Attempts whose worker was lost are not counted."""
        return self._claimed.attempt

    @property
    def lost(self) -> int:
        """How many attempts lost their worker before this one."""
        return self._claimed.lost

    @property
    def due_at(self) -> datetime:
        """When the run was due; the same for all attempts."""
        return self._claimed.due_at

    @property
    def last_checkpoint(self) -> Any:
        """What an earlier attempt saved with `checkpoint`, or None."""
        return None if self._claimed.checkpoint is None else json.decode(self._claimed.checkpoint)

    @property
    def logger(self) -> logging.Logger:
        """A logger whose lines are kept with the attempt."""
        return self._log.logger


class Context(BaseContext):
    """The context of an async task."""

    __slots__ = (
        "_complete",
        "_encode_result",
        "_progress_sink",
        "completed_in_transaction",
        "in_transaction",
        "stored_result",
    )

    def __init__(
        self,
        claimed: Claimed,
        worker_id: UUID,
        task: str,
        queue: str,
        attempt_log: AttemptLog,
        notebook: ProgressSink,
        complete: CompleteWithin,
        encode_result: Callable[[object], bytes],
    ) -> None:
        super().__init__(claimed, worker_id, task, queue, attempt_log)
        self._progress_sink = notebook
        self._encode_result = encode_result
        self._complete = complete
        self.completed_in_transaction = False
        self.stored_result: bytes | None = None
        """The result that the task gave when it completed the run in a transaction."""
        self.in_transaction = False
        """Whether a transaction of the task may lock the run's row: the worker's own writes to it would block."""

    def progress(self, fraction: float, message: str | None = None) -> None:
        """Report progress, from 0 to 1. It is sent about once a second, so calls are cheap."""
        note = progress_note(self._claimed.run_id, self._claimed.fence, fraction, message)
        self._progress_sink.remember(self._worker_id, note)

    async def checkpoint(self, data: Any) -> None:
        """Save the state that the next attempt starts from. It is durable when this returns. Raises `LeaseLost` when
        another worker holds the run by now, and `Conflict` while a transaction of the task is completing it."""
        note = checkpoint_note(self._claimed.run_id, self._claimed.fence, data)
        await self._progress_sink.save(self._worker_id, note, in_transaction=self.in_transaction)

    async def parents(self) -> list[Parent]:
        """The jobs that this run depended on, with their results (`state`, `value`, and `name` in the graph); or the
        run that it runs after."""
        return await self._progress_sink.parents(self._worker_id, self._claimed.run_id)

    async def result_of(self, task: Returning[R], node: str | None = None) -> R:
        """What the parent that ran this task returned, with its type. `node` is the parent's name in the graph, if
        several ran it. Raises `RunFailed` or `RunCancelled` if it did not succeed."""
        return find_result(await self.parents(), task, node)

    async def complete(self, connection: Any, result: Any = None) -> None:
        """Complete the run inside the caller's own PostgreSQL transaction: the effect and the completion are one
        commit. Raises `LeaseLost` when another worker holds the run by now; then roll back."""
        body = None if result is None else self._encode_result(result)
        self.in_transaction = True
        try:
            await self._complete(connection, self._worker_id, self._claimed, body, self._log.encoded())
            self.completed_in_transaction = True
            self.stored_result = body
        except LeaseLost as error:
            if not self.completed_in_transaction:
                raise
            raise LeaseLost(
                "this attempt has completed its run already, or another worker holds it now",
                remedy="roll back, and call ctx.complete once",
            ) from error
        finally:
            self.in_transaction = self.completed_in_transaction


class SyncContext(BaseContext):
    """The context of a plain function, in a thread or a process."""

    __slots__ = ("_progress_sink", "stop_requested")

    def __init__(
        self,
        claimed: Claimed,
        worker_id: UUID,
        task: str,
        queue: str,
        attempt_log: AttemptLog,
        notebook: SyncProgressSink,
    ) -> None:
        super().__init__(claimed, worker_id, task, queue, attempt_log)
        self._progress_sink = notebook
        self.stop_requested = threading.Event()
        """Set when the attempt must stop (timeout, cancellation, shutdown). Check it in long work."""

    if not TYPE_CHECKING:  # checkers know that it has none

        def __getattr__(self, name: str) -> Any:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name == "complete":
                message += ": it completes runs of an `async def` only"
            raise AttributeError(message)

    @property
    def cancelled(self) -> bool:
        """Whether the attempt must stop. A long function should check it regularly and return."""
        return self.stop_requested.is_set()

    def progress(self, fraction: float, message: str | None = None) -> None:
        """Report progress, from 0 to 1. It is sent about once a second, so calls are cheap."""
        note = progress_note(self._claimed.run_id, self._claimed.fence, fraction, message)
        self._progress_sink.remember(self._worker_id, note)

    def checkpoint(self, data: Any) -> None:
        """Save the state that the next attempt starts from. It is durable when this returns."""
        self._progress_sink.save(self._worker_id, checkpoint_note(self._claimed.run_id, self._claimed.fence, data))

    def parents(self) -> list[Parent]:
        """The jobs that this run depended on, with their results (`state`, `value`, and `name` in the graph); or the
        run that it runs after."""
        return self._progress_sink.parents(self._worker_id, self._claimed.run_id)

    def result_of(self, task: Returning[R], node: str | None = None) -> R:
        """What the parent that ran this task returned, with its type. `node` is the parent's name in the graph, if
        several ran it. Raises `RunFailed` or `RunCancelled` if it did not succeed."""
        return find_result(self.parents(), task, node)


def progress_note(run_id: UUID, fence: int, fraction: float, message: str | None) -> RunNote:
    share = min(1.0, max(0.0, float(fraction)))
    return RunNote(run_id, fence, share, None if message is None else bounded(str(message), MESSAGE_LIMIT))


def checkpoint_note(run_id: UUID, fence: int, data: Any) -> RunNote:
    return RunNote(run_id, fence, checkpoint=json.encode(data, field="checkpoint", limit=256 * 1024))


def log_ids() -> dict[str, str | int]:
    """The ids of the current attempt, for log lines; empty outside of one."""
    provider = current.get(None)
    if provider is None:
        return {}
    context = provider()
    ids: dict[str, str | int] = {
        "job_id": context.job_id,
        "run_id": context.run_id,
        "attempt": context.attempt,
        "tenant_id": context.tenant_id,
        "task": context.task,
    }
    if context.traceparent is not None:
        ids["trace_id"] = context.traceparent.split("-")[1]
    return ids


def current_context() -> BaseContext:
    """The context of the current attempt; raises `LookupError` outside of one."""
    provider = current.get(None)
    if provider is None:
        raise LookupError(
            "no attempt runs here: current_context() works in a task that a worker runs, and in what that task calls; "
            "in a test, use duetime.testing"
        )
    return provider()

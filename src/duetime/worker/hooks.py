"""Hooks: functions of the app that a worker calls after an attempt, with its outcome.

Each attempt that ends in a worker calls the hooks of one kind, once: `on_success`, `on_retry` (it failed, and the run
is tried again) or `on_failure` (it failed, and the run is a dead letter). The outcome is on its way to the store by
then, so a hook cannot change it. Hooks run in the worker's own process, wherever the task ran: async functions on the
event loop, others in threads. What a hook raises is logged. While too many calls wait, the worker claims no more runs.
"""

import asyncio
import contextlib
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from duetime.errors import InvalidInput, reason_of
from duetime.model import json
from duetime.model.failure import FailureClass

log = logging.getLogger("duetime.worker")

R_co = TypeVar("R_co", covariant=True)

AT_ONCE = 16
"""How many attempts are with hooks at the same time."""
MOST_WAITING = 1_000
"""How many may wait before the worker claims no more runs."""
HOOK_TIMEOUT = 30.0
_CLOSE_DEADLINE = 5.0


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """What the argument of every hook has."""

    task: str
    queue: str
    tenant_id: int
    """0 in a remote worker, whose key determines the tenant."""
    job_id: str
    run_id: str
    attempt: int
    """The first is 1. Attempts whose worker was lost are not counted."""
    stored_args: bytes = field(repr=False)

    @property
    def args(self) -> dict[str, Any]:
        """The arguments as they are stored, in JSON; empty if they cannot be decrypted here."""
        decoded: dict[str, Any] = json.decode(self.stored_args)
        return decoded

    @property
    def ids(self) -> dict[str, object]:
        """The same names as for log lines from inside an attempt."""
        ids = {"job_id": self.job_id, "run_id": self.run_id, "attempt": self.attempt, "task": self.task}
        return {**ids, "tenant_id": self.tenant_id} if self.tenant_id else ids


@dataclass(frozen=True, slots=True)
class SucceededAttempt(EndedAttempt, Generic[R_co]):
    """The argument of an `on_success` hook."""

    stored_result: bytes | None = field(repr=False)
    decode: Callable[[bytes | None], Any] = field(repr=False)

    @property
    def result(self) -> R_co:
        """What the function returned, decoded by its annotation. None for a result that was too large to store."""
        return self.decode(self.stored_result)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class FailedAttempt(EndedAttempt):
    """The argument of `on_retry` and `on_failure` hooks: which attempt failed, how, and what happens next."""

    failure: FailureClass
    message: str
    """The exception's class and text, or the target's answer."""
    retried: bool
    """Whether the run is retried; otherwise it is a dead letter."""
    retry_in: timedelta | None
    error: BaseException | None = field(default=None, repr=False)
    """The exception, where the function ran in this process."""
    traceback: str | None = field(default=None, repr=False)
    """Its traceback as text, also from a child process."""


Hook = Callable[[Any], Awaitable[object] | object]


@dataclass(slots=True, eq=False)
class Hooks:
    """The hooks of an app, or of a task, in the order of their registration."""

    on_success: list[Hook] = field(default_factory=list)
    on_retry: list[Hook] = field(default_factory=list)
    on_failure: list[Hook] = field(default_factory=list)

    def add(self, kind: str, hook: object) -> None:
        if not callable(hook):
            raise InvalidInput(f"{hook!r} is not a function", field=kind, remedy="decorate a def or an async def")
        getattr(self, kind).append(hook)


class HookCalls:
    """Calls hooks concurrently with the attempts of a worker. The hooks of one attempt are called one after the
    other."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, Sequence[Hook], EndedAttempt]] = deque()
        self._callers: set[asyncio.Task[None]] = set()
        self._threads = _Threads(AT_ONCE)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def add(self, kind: str, hooks: Sequence[Hook], ended: EndedAttempt) -> None:
        self._waiting.append((kind, hooks, ended))
        if len(self._callers) < AT_ONCE:
            self._callers.add(asyncio.get_running_loop().create_task(self._call(), name="duetime hooks"))

    async def close(self) -> None:
        """Wait briefly until the hooks have been called for everything."""
        if self._callers:
            _, late = await asyncio.wait(set(self._callers), timeout=_CLOSE_DEADLINE)
            for caller in late:
                caller.cancel()
            if late:
                log.warning("%d calls of hooks were dropped at the stop", len(late) + len(self._waiting))
        self._threads.close()

    async def _call(self) -> None:
        caller = asyncio.current_task()
        assert caller is not None
        try:
            while self._waiting:
                kind, hooks, ended = self._waiting.popleft()
                for hook in hooks:
                    await self._call_one(kind, hook, ended)
        finally:
            self._callers.discard(caller)  # at once, so that the next attempt gets another one

    async def _call_one(self, kind: str, hook: Hook, ended: EndedAttempt) -> None:
        try:
            async with asyncio.timeout(HOOK_TIMEOUT):
                returned = hook(ended) if _is_async(hook) else await self._threads.call(hook, ended)
                if inspect.isawaitable(returned):
                    await returned
        except Exception as error:
            name = getattr(hook, "__qualname__", repr(hook))
            log.error("the %s hook %s failed: %s", kind, name, reason_of(error), exc_info=error, extra=ended.ids)


class _Threads:
    """A few daemon threads, started on demand: a hook that never returns cannot keep the process alive."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._calls: SimpleQueue[tuple[Hook, EndedAttempt, asyncio.Future[object]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0

    async def call(self, hook: Hook, ended: EndedAttempt) -> object:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[object] = loop.create_future()
        self._busy += 1
        self._calls.put((hook, ended, answer))
        if len(self._threads) < min(self._size, self._busy):
            serve = threading.Thread(target=self._serve, args=(loop,), name="duetime-hooks", daemon=True)
            self._threads.append(serve)
            serve.start()
        return await answer

    def close(self) -> None:
        for _ in self._threads:
            self._calls.put(None)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        while (call := self._calls.get()) is not None:
            hook, ended, answer = call
            returned, error = None, None
            if not answer.cancelled():  # its time may be over before it began
                try:
                    returned = hook(ended)
                except BaseException as raised:
                    error = raised
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(self._answer, answer, returned, error)

    def _answer(self, answer: "asyncio.Future[object]", returned: object, error: BaseException | None) -> None:
        self._busy -= 1
        if answer.done():
            return
        if error is None:
            answer.set_result(returned)
        else:
            answer.set_exception(error if isinstance(error, Exception) else RuntimeError(f"it raised {error!r}"))


def _is_async(hook: Hook) -> bool:
    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(getattr(hook, "__call__", None))  # noqa: B004

"""Whether and where an app runs inside this process: at most once, on the caller's event loop or on its own thread.

The host's signal handlers stay as they are. A forked child does not run what its parent runs: it has none of the
parent's threads. It is not allowed to start the app either, because a process with running threads must not be
forked: a lock that a thread holds at that moment stays locked in the child.
"""

import asyncio
import atexit
import contextlib
import contextvars
import os
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from duetime.errors import Conflict
from duetime.process.forks import reset_in_children
from duetime.sdk.app import App
from duetime.worker.import_guard import refuse_at_import

if TYPE_CHECKING:
    from duetime.embedded.supervisor import Supervisor

_LAST_TASKS = 2.0
"""Seconds for tasks that are still on the thread's event loop when everything has stopped."""
_AT_EXIT = 5.0
"""Seconds beyond the grace period for which the end of the program waits for a thread that was not stopped."""


class Embedding:
    def __init__(self, app: App) -> None:
        self._app = app
        self._place: _Thread | asyncio.AbstractEventLoop | None = None
        """What it runs on, from the start until it has stopped."""
        self._forked_from: int | None = None
        self._process = os.getpid()
        self._guard = threading.Lock()
        reset_in_children(self)

    def begin_anew(self) -> object:
        before, self._place = self._place, None
        if before is not None:
            self._forked_from = self._process
        self._process = os.getpid()
        self._guard = threading.Lock()
        return before

    @property
    def is_running(self) -> bool:
        return self._place is not None

    @asynccontextmanager
    async def on_this_loop(self) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        self._take(loop)
        try:
            supervisor = _supervisor(self._app)
            is_ready = asyncio.Event()
            # In a context of its own: runs do not belong to the request or span that is current here.
            running = loop.create_task(supervisor.run(is_ready.set), name="duetime", context=contextvars.Context())
            waiting = loop.create_task(is_ready.wait())
            try:
                await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
                if is_ready.is_set():
                    yield
            finally:
                waiting.cancel()
                await _stopped(supervisor, running)
        finally:
            self._leave()

    def start(self) -> None:
        thread = _Thread(self._app, self._leave)
        self._take(thread)
        thread.start()

    def stop(self) -> None:
        place = self._place
        if isinstance(place, _Thread):
            place.stop()
        elif place is not None:
            raise Conflict("this app runs in `async with app.running()`", remedy="leave that block to stop it")
        elif self._forked_from is not None:
            raise Conflict(f"this app does not run in this process, but in its parent {self._forked_from}")

    def _take(self, place: "_Thread | asyncio.AbstractEventLoop") -> None:
        refuse_at_import("starts the app")
        with self._guard:
            if self._place is not None:
                raise Conflict(
                    "this app is already running in this process",
                    remedy="start it once per process, or stop it first",
                )
            if self._forked_from is not None:
                raise Conflict(
                    f"process {self._forked_from} ran this app when it forked this process",
                    remedy="start it after the fork only: with gunicorn, in the hook post_worker_init, not at import",
                )
            self._place = place

    def _leave(self) -> None:
        with self._guard:
            self._place = None


class _Thread:
    """Runs an app on a thread with its own event loop."""

    def __init__(self, app: App, on_end: Callable[[], None]) -> None:
        self._app = app
        self._on_end = on_end
        self._ready: Future[None] = Future()
        self._supervisor: Supervisor | None = None
        self._error: Exception | None = None
        self._stop_asked = False
        self._loop: asyncio.AbstractEventLoop | None = None
        # A daemon, because a program must be able to end; it is stopped then.
        self._thread = threading.Thread(target=self._serve, name="duetime", daemon=True)

    def start(self) -> None:
        """Returns once it is up; raises what prevents it."""
        try:
            self._thread.start()
        except BaseException:
            self._on_end()
            raise
        try:
            self._ready.result()
        except BaseException:
            self.stop()
            raise
        # Exit handlers run in reverse order. The one of `multiprocessing`, which kills the children, was registered
        # during the start.
        atexit.register(self._stop_at_exit)

    def stop(self) -> None:
        """Stop gracefully, and wait for the end. An interrupt while it waits stops it at once."""
        if threading.current_thread() is self._thread:
            raise Conflict("a task cannot wait for the end of its own app", remedy="call stop() elsewhere")
        self._ask_to_stop()
        try:
            self._thread.join()
        except BaseException:
            self._ask_to_stop()
            raise
        if self._error is not None and self._ready.exception() is None:
            raise self._error

    def _ask_to_stop(self) -> None:
        self._stop_asked = True  # first: a thread that is still starting looks for it
        loop, supervisor = self._loop, self._supervisor
        if loop is not None and supervisor is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(supervisor.stop)

    def _stop_at_exit(self) -> None:
        if self._thread.is_alive():  # not in a forked child, which has the exit handlers of its parent
            self._ask_to_stop()
            self._thread.join(self._app.settings.grace.total_seconds() + _AT_EXIT)

    def _serve(self) -> None:
        try:
            loop = self._loop = asyncio.new_event_loop()
            try:
                self._supervisor = _supervisor(self._app)
                if self._stop_asked:
                    self._supervisor.stop()
                loop.run_until_complete(self._supervisor.run(lambda: self._ready.set_result(None)))
            finally:
                loop.run_until_complete(_end_tasks())
                loop.close()
        except Exception as error:
            self._error = error
        finally:
            atexit.unregister(self._stop_at_exit)
            self._on_end()
            if not self._ready.done():
                self._ready.set_exception(self._error or Conflict("the app was stopped while it started"))


def _supervisor(app: App) -> "Supervisor":
    # Imported here: an app that only submits needs no server.
    from duetime.embedded.supervisor import Supervisor

    return Supervisor(app)


async def _stopped(supervisor: "Supervisor", running: "asyncio.Task[None]") -> None:
    supervisor.stop()
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        supervisor.stop()  # the caller waits no longer: hand everything back now
        raise


async def _end_tasks() -> None:
    """As `asyncio.run` does, but without waiting for threads, which may never end."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=_LAST_TASKS)
    await asyncio.get_running_loop().shutdown_asyncgens()

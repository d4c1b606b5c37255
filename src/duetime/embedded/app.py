"""`duetime.App`: the app of the SDK, which can also run inside the user's own process.

async with app.running():                # on this event loop: FastAPI, bots, scripts
    await send_report.submit(to="ops@example.com")

app.start()                              # on its own thread: Flask, Django, plain scripts
send_report.sync.submit(to="ops@example.com")
app.stop()
"""

import functools
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from duetime.embedded.embedding import Embedding
from duetime.errors import InvalidInput
from duetime.sdk import app as sdk

_ELSEWHERE = {
    "run_forever": "app.start(), `async with app.running()`, or the command `duetime worker module:app`",
    "shutdown": "app.stop()",
    "add_job": 'await app.schedule(task.bind(…), cron="…") or await app.submit(task.bind(…), run_at=…)',
    "scheduled_job": "@app.task, and a schedule in a function that is decorated with @app.on_start",
    "send_task": 'await app.submit("name", {…})',
    "worker_main": "app.start(), or the command `duetime worker module:app`",
}
"""Hints for attributes that exist in other libraries."""


class App(sdk.App):
    """A set of tasks, and the connection to their jobs."""

    _embedding: Embedding

    def running(self) -> AbstractAsyncContextManager[None]:
        """Run this app inside the block, on the current event loop: the loops that fire schedules, and a worker for its
        tasks. The block begins once they are up and the start hooks have run. At its end, running attempts may finish
        within the grace period; the rest is handed back, unspent.

        Raises what prevents the start, for example `StoreLocked` if another process owns the embedded file, and
        `Conflict` if the app already runs in this process.
        """
        return self._embedding.on_this_loop()

    def start(self) -> None:
        """Like `running`, for code that is not async: run this app on its own thread with its own event loop, until
        `stop`, or the end of the program. Returns once it is up. It takes no signal handlers from the process."""
        self._embedding.start()

    def stop(self) -> None:
        """Stop what `start` has started, gracefully, and wait for its end. Does nothing if the app does not run."""
        self._embedding.stop()

    @property
    def is_running(self) -> bool:
        """Whether `running` or `start` runs this app in this process."""
        return self._embedding.is_running

    if not TYPE_CHECKING:
        # Type checkers see the signatures of the base class.

        @functools.wraps(sdk.App.__init__)
        def __init__(self, *positional: Any, **given: Any) -> None:
            if positional:
                raise InvalidInput(
                    "takes no positional arguments",
                    field="App",
                    remedy="App(database_url=…), App(url=…) or App(data_dir=…); an app has no name",
                )
            super().__init__(**given)
            self._embedding = Embedding(self)

        def run(self, *run: Any) -> Any:
            """Read a stored run, with its attempts. To run the app: `start`, `running`, or `duetime worker`."""
            if not run:
                raise InvalidInput(
                    "app.run(run) reads a stored run, and needs its id",
                    field="run",
                    remedy="to run this app's tasks: app.start(), `async with app.running()`, or duetime worker",
                )
            return super().run(*run)

        def __getattr__(self, name: str) -> Any:
            hint = _ELSEWHERE.get(name)
            known = f"an app has no attribute {name!r}"
            raise AttributeError(known if hint is None else f"{known}: use {hint}")

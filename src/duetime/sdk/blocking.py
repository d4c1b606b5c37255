"""The app for code that is not async. One event loop on one background thread serves all callers; every method of the
app is reached through it, so nothing is written twice."""

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from duetime.errors import InvalidInput
from duetime.model.attempt import Run
from duetime.model.calendar import Calendar
from duetime.model.graph import Graph
from duetime.model.job import Job
from duetime.process.background_loop import BackgroundLoop
from duetime.sdk.graph_plan import GraphLike, GraphPlan
from duetime.sdk.preview import Preview
from duetime.sdk.receipt import Receipt
from duetime.spec.options import Duration

if TYPE_CHECKING:
    from duetime.sdk.app import App, TaskLike
    from duetime.spec.identity import JobLike, RunLike

T = TypeVar("T")


class SyncApp:
    """`app.sync.submit(send_report, to="…")`: as the app's own methods, but they block until they are done."""

    def __init__(self, app: "App") -> None:
        self._app = app
        self._background = BackgroundLoop("the app", "duetime-sync", app.close)

    def submit(
        self, task: "TaskLike | None" = None, /, *, connection: object = None, **options_and_arguments: Any
    ) -> Receipt:
        """See `App.submit`. `connection=` takes an open psycopg connection of this thread."""
        if connection is not None:
            _check_blocking(connection)
            # Nothing on a blocking connection is ever awaited, so it is used right here, on the caller's thread.
            return _drive(self._app.submit(task, connection=connection, **options_and_arguments))
        return self._call(self._app.submit, task, **options_and_arguments)

    def submit_many(self, task: "TaskLike", batch: Iterable[Mapping[str, Any]], /, **options: Any) -> list[Receipt]:
        return self._call(self._app.submit_many, task, batch, **options)

    def schedule(self, task: "TaskLike | None" = None, /, **options_and_arguments: Any) -> Receipt:
        return self._call(self._app.schedule, task, **options_and_arguments)

    def edit(self, job: "JobLike", **changes: Any) -> Job:
        return self._call(self._app.edit, job, **changes)

    def preview(self, schedule: "JobLike", **options: Any) -> Preview:
        return self._call(self._app.preview, schedule, **options)

    def set_calendar(self, name: str, dates: Iterable[date | str]) -> Calendar:
        return self._call(self._app.set_calendar, name, dates)

    def calendar(self, name: str) -> Calendar:
        return self._call(self._app.calendar, name)

    def calendars(self) -> list[Calendar]:
        return self._call(self._app.calendars)

    def delete_calendar(self, name: str) -> None:
        self._call(self._app.delete_calendar, name)

    def pause(self, job: "JobLike") -> Job:
        return self._call(self._app.pause, job)

    def resume(self, job: "JobLike") -> Job:
        return self._call(self._app.resume, job)

    def trigger(self, job: "JobLike", *, idempotency_key: str | None = None) -> Run:
        return self._call(self._app.trigger, job, idempotency_key=idempotency_key)

    def backfill(self, job: "JobLike", start: datetime | str, end: datetime | str, **bounds: Any) -> int:
        return self._call(self._app.backfill, job, start, end, **bounds)

    def retry(self, run: "RunLike", *, idempotency_key: str | None = None) -> Run:
        return self._call(self._app.retry, run, idempotency_key=idempotency_key)

    def cancel(self, job: "JobLike") -> Job:
        return self._call(self._app.cancel, job)

    def cancel_run(self, run: "RunLike") -> Run:
        return self._call(self._app.cancel_run, run)

    def job(self, job: "JobLike") -> Job:
        return self._call(self._app.job, job)

    def run(self, run: "RunLike") -> Run:
        return self._call(self._app.run, run)

    def runs(self, job: "JobLike", limit: int = 100) -> list[Run]:
        return self._call(self._app.runs, job, limit)

    def wait(self, job: "JobLike", timeout: Duration | None = None) -> Run:
        return self._call(self._app.wait, job, timeout)

    def submit_graph(self, plan: GraphPlan, **options: Any) -> Graph:
        return self._call(self._app.submit_graph, plan, **options)

    def graph(self, graph: GraphLike) -> Graph:
        return self._call(self._app.graph, graph)

    def cancel_graph(self, graph: GraphLike) -> Graph:
        return self._call(self._app.cancel_graph, graph)

    def rerun_graph(self, graph: GraphLike) -> Graph:
        return self._call(self._app.rerun_graph, graph)

    def wait_graph(self, graph: GraphLike, timeout: Duration | None = None) -> Graph:
        return self._call(self._app.wait_graph, graph, timeout)

    def close(self) -> None:
        """Close the connection and end the background thread; the next call starts them again. Threads that wait for an
        answer get `Closed`."""
        self._background.close()

    def __enter__(self) -> "SyncApp":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        return self._background.run(method(*args, **kwargs))


def _check_blocking(connection: object) -> None:
    """An async connection would be left in the middle of its first statement."""
    if hasattr(connection, "fetchval") or inspect.iscoroutinefunction(getattr(connection, "execute", None)):
        raise InvalidInput(
            "this connection is async", field="connection", remedy="use `await app.submit(…, connection=…)`"
        )


def _drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    coroutine.close()
    raise RuntimeError("this coroutine was not to wait")

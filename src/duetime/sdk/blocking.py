"""The blocking app. One event loop on one background thread serves all callers and calls the methods of the app."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import date, datetime
from typing import Any, TypeVar, Unpack, overload

from duetime.errors import InvalidInput
from duetime.model.attempt import Run
from duetime.model.calendar import Calendar
from duetime.model.graph import Graph
from duetime.model.job import Job
from duetime.process.background_loop import BackgroundLoop
from duetime.sdk.graph_plan import GraphPlan
from duetime.sdk.preview import Preview
from duetime.sdk.receipt import JobReceipt, Receipt, SyncReceipt
from duetime.sdk.stored_jobs import GraphLike
from duetime.sdk.submission import Submission, TargetLike
from duetime.sdk.task import Bindable, Call, Task
from duetime.spec.identity import JobLike, RunLike
from duetime.spec.options import Duration, EditOptions, ScheduleOptions, SubmitOptions
from duetime.store.caller_connections import caller_connection

R = TypeVar("R")
T = TypeVar("T")


class SyncApp:
    """`app.sync.submit(send_report.bind(to="…"))`: the methods of the app, but blocking."""

    def __init__(self, app: Submission, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._app = app
        self._background = BackgroundLoop("the app", "duetime-sync", close, instead="`await` without `.sync`")

    @overload
    def submit(self, what: Bindable[R], /, **options: Unpack[SubmitOptions]) -> SyncReceipt[R]: ...
    @overload
    def submit(
        self, what: str, args: Mapping[str, Any] | None = None, /, **options: Unpack[SubmitOptions]
    ) -> SyncReceipt[Any]: ...
    @overload
    def submit(self, what: TargetLike, /, **options: Unpack[SubmitOptions]) -> SyncReceipt[Any]: ...

    def submit(self, what: Any, args: Any = None, /, **options: Any) -> SyncReceipt[Any]:
        """See `App.submit`. `connection=` takes an open connection of this thread that is not async."""
        if isinstance(what, Task):
            what = what.bind()  # its connection is found below
        connection = options.get("connection")
        if connection is None and isinstance(what, Call):
            connection = what.task.connection
        submission = self._app.submit(what, args, **options)
        if connection is None:
            return self._receipt(self._background.run(submission))
        try:
            _check_blocking(connection)
        except InvalidInput:
            submission.close()
            raise
        # A blocking connection never awaits, so it is used here, on the caller's thread.
        return self._receipt(_drive(submission))

    def submit_many(self, calls: Iterable[Bindable[R]], /, **options: Unpack[SubmitOptions]) -> list[SyncReceipt[R]]:
        return [self._receipt(each) for each in self._call(self._app.submit_many, calls, **options)]

    @overload
    def schedule(self, what: Bindable[Any] | TargetLike, /, **options: Unpack[ScheduleOptions]) -> JobReceipt: ...
    @overload
    def schedule(
        self, what: str, args: Mapping[str, Any] | None = None, /, **options: Unpack[ScheduleOptions]
    ) -> JobReceipt: ...

    def schedule(self, what: Any, args: Any = None, /, **options: Any) -> JobReceipt:
        return self._call(self._app.schedule, what, args, **options)

    def edit(
        self,
        job: JobLike,
        /,
        *,
        args: Call[Any] | None = None,
        version: int | None = None,
        **changes: Unpack[EditOptions],
    ) -> Job:
        return self._call(self._app.edit, job, args=args, version=version, **changes)

    def preview(self, schedule: JobLike, **options: Any) -> Preview:
        return self._call(self._app.preview, schedule, **options)

    def set_calendar(self, name: str, dates: Iterable[date | str]) -> Calendar:
        return self._call(self._app.set_calendar, name, dates)

    def calendar(self, name: str) -> Calendar:
        return self._call(self._app.calendar, name)

    def calendars(self) -> list[Calendar]:
        return self._call(self._app.calendars)

    def delete_calendar(self, name: str) -> None:
        self._call(self._app.delete_calendar, name)

    def pause(self, job: JobLike) -> Job:
        return self._call(self._app.pause, job)

    def resume(self, job: JobLike) -> Job:
        return self._call(self._app.resume, job)

    def trigger(self, job: JobLike, *, idempotency_key: str | None = None) -> Run:
        return self._call(self._app.trigger, job, idempotency_key=idempotency_key)

    def backfill(self, job: JobLike, start: datetime | str, end: datetime | str, **bounds: Any) -> int:
        return self._call(self._app.backfill, job, start, end, **bounds)

    def retry(self, run: RunLike, *, idempotency_key: str | None = None) -> Run:
        return self._call(self._app.retry, run, idempotency_key=idempotency_key)

    def cancel(self, job: JobLike) -> Job:
        return self._call(self._app.cancel, job)

    def cancel_run(self, run: RunLike) -> Run:
        return self._call(self._app.cancel_run, run)

    def job(self, job: JobLike) -> Job:
        return self._call(self._app.job, job)

    def run(self, run: RunLike) -> Run:
        return self._call(self._app.run, run)

    def runs(self, job: JobLike, limit: int = 100) -> list[Run]:
        return self._call(self._app.runs, job, limit)

    def wait(self, job: JobLike, timeout: Duration | None = None) -> Run:
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
        """Close the connection and end the background thread. The next call starts them again. Threads that wait for an
        answer get `Closed`."""
        self._background.close()

    def __enter__(self) -> "SyncApp":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _receipt(self, receipt: Receipt[R]) -> SyncReceipt[R]:
        fields = (receipt.job_id, receipt.next_run, receipt.run_id, receipt.created, receipt.note, receipt.via)
        return SyncReceipt(*fields, self.wait, receipt._decode)

    def _call(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        return self._background.run(method(*args, **kwargs))


def _check_blocking(connection: object) -> None:
    """Refuse async connections, which would stop at their first await."""
    if caller_connection(connection).is_async:
        raise InvalidInput(
            "this connection is async", field="connection", remedy="use `await app.submit(…, connection=…)`"
        )


def _drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    coroutine.close()
    raise RuntimeError("this coroutine must not suspend")

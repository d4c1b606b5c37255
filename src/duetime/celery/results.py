"""The result of a submission, with Celery's names. Everything is read from the store: the id is all that it needs."""

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from duetime.celery.current import Owner, current
from duetime.clock import monotonic
from duetime.errors import InvalidInput, RunCancelled, RunFailed
from duetime.model.attempt import Run
from duetime.model.run import RunState
from duetime.sdk.receipt import plain_result, result_of

in_task: ContextVar[bool] = ContextVar("duetime_celery_in_task", default=False)
_STATES = {
    RunState.RUNNING: "STARTED",
    RunState.RETRYING: "RETRY",
    RunState.SUCCEEDED: "SUCCESS",
    RunState.FAILED: "FAILURE",
    RunState.CANCELLED: "REVOKED",
    RunState.SKIPPED: "REVOKED",
}


class AsyncResult:
    """A job by its id."""

    def __init__(self, id: str, app: Owner | None = None, parent: "AsyncResult | GroupResult | None" = None) -> None:
        self.id = id
        self.app = current() if app is None else app
        self.parent = parent

    @property
    def task_id(self) -> str:
        return self.id

    def get(self, timeout: float | None = None, propagate: bool = True, disable_sync_subtasks: bool = True) -> Any:
        """Wait for the result. Raises `RunFailed`, `RunCancelled` or `TimeoutError`: the task's own exception stays in
        its worker, and its class and text are in the message."""
        _check_outside_tasks(disable_sync_subtasks)
        run = self.app.jobs.sync.wait(self.id, timeout)
        try:
            return self._read(run)
        except (RunFailed, RunCancelled) as error:
            if propagate:
                raise
            return error

    wait = get

    @property
    def state(self) -> str:
        """PENDING, STARTED, RETRY, SUCCESS, FAILURE or REVOKED. An id that is unknown raises `NotFound`."""
        run = self._run()
        return "PENDING" if run is None else _STATES.get(run.state, "PENDING")

    status = state

    def ready(self) -> bool:
        return self.state in ("SUCCESS", "FAILURE", "REVOKED")

    def successful(self) -> bool:
        return self.state == "SUCCESS"

    def failed(self) -> bool:
        return self.state == "FAILURE"

    @property
    def result(self) -> Any:
        """The result, or the error; None before the end."""
        run = self._run()
        if run is None or not run.state.is_end:
            return None
        try:
            return self._read(run)
        except (RunFailed, RunCancelled) as error:
            return error

    @property
    def traceback(self) -> str | None:
        run = self._run()
        return run.error if run is not None and run.state is RunState.FAILED else None

    def revoke(self, terminate: bool = False) -> None:
        """Cancel it. A running function is asked to stop, and killed if it runs in a process: `terminate` changes
        nothing."""
        self.app.jobs.sync.cancel(self.id)

    def forget(self) -> None:
        raise InvalidInput("results cannot be forgotten", field="forget", remedy="the setting `retention` removes them")

    def __repr__(self) -> str:
        return f"<AsyncResult: {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncResult) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def _run(self) -> Run | None:
        runs = self.app.jobs.sync.runs(self.id, 1)
        if not runs:
            self.app.jobs.sync.job(self.id)  # an unknown id raises
        return runs[0] if runs else None

    def _read(self, run: Run) -> Any:
        task = self.app.jobs.tasks.get(run.task)
        return result_of(run, plain_result if task is None else task.definition.decode_result)


class GroupResult:
    """The results of a group, in its order."""

    def __init__(self, results: Sequence[AsyncResult], parent: "AsyncResult | GroupResult | None" = None) -> None:
        self.results = list(results)
        self.parent = parent

    def get(
        self, timeout: float | None = None, propagate: bool = True, disable_sync_subtasks: bool = True
    ) -> list[Any]:
        """All results; `timeout` is for all of them together."""
        deadline = None if timeout is None else monotonic() + timeout
        return [
            each.get(None if deadline is None else max(0.0, deadline - monotonic()), propagate, disable_sync_subtasks)
            for each in self.results
        ]

    join = get

    def ready(self) -> bool:
        return all(each.ready() for each in self.results)

    def successful(self) -> bool:
        return all(each.successful() for each in self.results)

    def failed(self) -> bool:
        return any(each.failed() for each in self.results)

    def completed_count(self) -> int:
        return sum(each.successful() for each in self.results)

    def revoke(self, terminate: bool = False) -> None:
        for each in self.results:
            each.revoke(terminate)

    def __iter__(self) -> Iterator[AsyncResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, place: int) -> AsyncResult:
        return self.results[place]


def _check_outside_tasks(disabled: bool) -> None:
    if disabled and in_task.get():
        raise RuntimeError(
            "result.get() inside a task holds a thread, and may wait for a run that needs it: use a chain or a chord, "
            "or get(disable_sync_subtasks=False)"
        )

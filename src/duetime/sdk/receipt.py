"""Receipts: what a submission returns."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from duetime import ids
from duetime.errors import RunCancelled, RunFailed
from duetime.model import json
from duetime.model.attempt import Run
from duetime.model.job import Submitted, Via
from duetime.model.run import RunState
from duetime.spec.options import Duration

R_co = TypeVar("R_co", covariant=True)


Wait = Callable[[str, Duration | None], Awaitable[Run]]


def plain_result(body: bytes | None) -> Any:
    """A result without an annotation."""
    return json.decode(body) if body else None


class JobReceipt(msgspec.Struct, frozen=True, gc=False):
    """Proof that a job is stored durably, in the database or in the stream of its queue."""

    job_id: str
    next_run: datetime | None
    """When it runs next. Unknown for a job that was submitted inside a transaction."""
    run_id: str | None = None
    """The run, if it exists already."""
    created: bool = True
    """False when a key led to an existing job."""
    note: str | None = None
    """A warning, such as a time in the past."""
    via: Via = "store"
    """Whether its run is a message in the stream of its queue, or a row in the store."""

    if not TYPE_CHECKING:  # checkers know that it has none

        def __getattr__(self, name: str) -> Any:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name == "result":
                message += ": a recurring job has many; read them with `await app.runs(receipt)`, or use submit"
            raise AttributeError(message)

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in JobReceipt.__struct_fields__)
        return f"{type(self).__name__}({', '.join(shown)})"


class Receipt(JobReceipt, Generic[R_co], frozen=True, gc=False):
    """The receipt of a job that runs once, with access to its result."""

    _wait: Wait | None = None
    _decode: Callable[[bytes | None], Any] = plain_result

    async def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the run, and return the task's result, decoded by its return annotation. Raises `RunFailed` or
        `RunCancelled` if it did not succeed, `TimeoutError` after `timeout`, and `PayloadMismatch` if the stored result
        does not fit the annotation."""
        assert self._wait is not None
        return result_of(await self._wait(self.job_id, timeout), self._decode)  # type: ignore[no-any-return]


class SyncReceipt(JobReceipt, Generic[R_co], frozen=True, gc=False):
    """The same for blocking code."""

    _wait: Callable[[str, Duration | None], Run] | None = None
    _decode: Callable[[bytes | None], Any] = plain_result

    def result(self, timeout: Duration | None = None) -> R_co:
        """See `Receipt.result`."""
        assert self._wait is not None
        return result_of(self._wait(self.job_id, timeout), self._decode)  # type: ignore[no-any-return]


def receipt_fields(answer: Submitted) -> tuple[str, datetime | None, str | None, bool, str | None, Via]:
    """The fields of every receipt, in order."""
    run_id = None if answer.run_id is None else ids.show("run", answer.run_id)
    return ids.show("job", answer.job_id), answer.next_run, run_id, answer.created, answer.note, answer.via


def result_of(run: Run, decode: Callable[[bytes | None], Any]) -> Any:
    if run.state is RunState.SUCCEEDED:
        return decode(run.result)
    run_id = ids.show("run", run.id)
    if run.state is RunState.FAILED:
        raise RunFailed(f"{run_id} of {run.task} failed: {run.error}")
    raise RunCancelled(f"{run_id} of {run.task} ended as {run.state.name}: {run.error or 'it did not run'}")

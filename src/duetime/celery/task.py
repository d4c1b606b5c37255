"""A task with Celery's interface: `delay`, `apply_async`, `s`, and `self.request` and `self.retry` for `bind=True`.

It wraps a task of duetime. The function of that task takes arguments by name, hands the task itself to a bound
function, takes the results of a graph, and turns the errors of `autoretry_for` into retries.
"""

import functools
import inspect
import random
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any, NoReturn

import msgspec

from duetime.celery.canvas import Signature
from duetime.celery.current import Owner
from duetime.celery.options import Retrying, call_options, read_retrying, read_seconds, task_options
from duetime.celery.results import AsyncResult, in_task
from duetime.clock import SystemClock
from duetime.errors import InvalidInput
from duetime.model.outcome import RetryAfter, Signal
from duetime.sdk.receipt import plain_result
from duetime.sdk.task import Call, Task, name_of
from duetime.worker.context import SyncContext, current_context
from duetime.worker.task import TaskDefinition

_FROM_PARENTS = "from_parents"
"""The parameter that tells a task of a graph to take its first argument from the tasks before it: `one` or `all`."""
_MISSING = type("_Missing", (), {"__repr__": lambda _: "…"})()
_HINTS = {
    "apply": "call the function, or use duetime.testing",
    "chunks": "use app.submit_many([task.bind(…), …])",
    "map": "use group(task.s(x) for x in …)",
    "starmap": "use group(task.s(*x) for x in …)",
    "replace": "return the result, and submit the rest as a chain",
    "add_to_chord": "put all tasks into the chord before you submit it",
    "update_state": "use duetime.current_context().progress(0.5, 'half way')",
    "backend": "results are in duetime's store: use AsyncResult(id)",
    "subtask": "use task.s(…)",
    "submit": "that is duetime's own interface: decorate the function with @jobs.task",
}


class Retry(RetryAfter):
    """What `self.retry()` raises: the attempt has failed, and the next one starts after the delay."""


class MaxRetriesExceededError(Exception):
    """`self.retry()` was called without `exc=` after the last retry."""


class Request(msgspec.Struct, frozen=True):
    """What `self.request` says about the current attempt."""

    task: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    id: str | None = None
    """The id of the job, which `AsyncResult` takes. The runs of a schedule share it: `run_id` differs."""
    run_id: str | None = None
    retries: int = 0
    called_directly: bool = True

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"self.request of duetime.celery has no {name!r}: see duetime.current_context()")


_request: ContextVar["tuple[CeleryTask, Request] | None"] = ContextVar("duetime_celery_request", default=None)


class CeleryTask:
    """A task with Celery's interface. `task.native` is the task of duetime."""

    __name__: str

    def __init__(self, celery: Owner, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        given = dict(options)
        self.celery = celery
        self.run = function
        self._bind = bool(given.pop("bind", False))
        self._ignores_result = bool(given.pop("ignore_result", False))
        self._signature = _signature_of(function, bind=self._bind)
        self.retrying = read_retrying(given)
        name = given.pop("name", None) or name_of(function)
        asks = self._bind or bool(self.retrying.on)
        translated = task_options(given, name, self.retrying if asks else None)
        first = next(iter(self._signature.parameters.values()), None)
        self._first = None if first is None or first.kind is not first.POSITIONAL_OR_KEYWORD else first.name
        self.native: Task[..., Any] = celery.jobs.task(name=name, **translated)(self._as_function())
        functools.update_wrapper(self, function)

    @property
    def name(self) -> str:
        return self.native.name

    @property
    def definition(self) -> TaskDefinition:
        """What a process that runs the task looks for under the function's name."""
        return self.native.definition

    @property
    def max_retries(self) -> int:
        return self.retrying.limit

    @property
    def app(self) -> Owner:
        return self.celery

    @property
    def parameters(self) -> list[str]:
        """Their names, in order."""
        return [each.name for each in self._signature.parameters.values() if each.kind is not each.VAR_KEYWORD]

    # Submitting.

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult:
        """Submit it now."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Iterable[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncResult:
        """Submit it with options: those of Celery that duetime has, or duetime's own."""
        call = self.bound(tuple(args or ()), kwargs or {})
        receipt = self.celery.jobs.sync.submit(call, **call_options(options, self.celery.zone))
        return AsyncResult(receipt.job_id, self.celery)

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """A signature, for chain, group and chord."""
        return Signature(self, args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Signature:
        """A signature that takes no result of the task before it."""
        return Signature(self, args, kwargs, immutable=True)

    def signature(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        immutable: bool = False,
        **more: Any,
    ) -> Signature:
        return Signature(self, args or (), kwargs, {**(options or {}), **more}, immutable)

    def AsyncResult(self, id: str) -> AsyncResult:
        return AsyncResult(id, self.celery)

    def bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], from_parents: str | None = None) -> Call[Any]:
        """A call of duetime's task. With `from_parents`, its first argument comes later."""
        if from_parents is not None and self._first is None:
            raise InvalidInput(
                f"{self.name} has no parameter for the result of the task before it",
                field="args",
                remedy=f"{self.__name__}.si(…)",
            )
        try:
            later = () if from_parents is None else (_MISSING,)
            named = self._signature.bind(*later, *args, **kwargs)
        except TypeError as error:
            text = f"the arguments do not match {self.name}{self._signature}: {error}"
            raise InvalidInput(text, field="args") from None
        given = {name: value for name, value in named.arguments.items() if value is not _MISSING}
        for parameter in self._signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                given |= given.pop(parameter.name, {})
        if from_parents is not None:
            given[_FROM_PARENTS] = from_parents
        return self.native.bind(**given)

    # Running.

    @property
    def request(self) -> Request:
        """The current attempt of this task."""
        found = _request.get()
        return found[1] if found is not None and found[0] is self else Request(self.name, (), {})

    def retry(
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: BaseException | None = None,
        throw: bool = True,
        eta: datetime | None = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> Retry:
        """Fail this attempt, and try again after `countdown` seconds. After the last retry it raises `exc`, or
        `MaxRetriesExceededError`."""
        for field, value, remedy in (
            ("args", args, "a retry has the arguments of its run; submit another job for others"),
            ("kwargs", kwargs, "a retry has the arguments of its run; submit another job for others"),
            (next(iter(options), "options"), options or None, "a retry has the options of its run"),
        ):
            if value is not None:
                raise InvalidInput("cannot be changed by a retry", field=field, remedy=remedy)
        if max_retries is not None and max_retries > self.max_retries:
            raise InvalidInput(
                f"{max_retries} is more than the {self.max_retries} of the task",
                field="max_retries",
                remedy=f"give max_retries={max_retries} to the decorator",
            )
        request = self.request
        limit = self.max_retries if max_retries is None else max_retries
        if request.called_directly or request.retries >= limit:
            self._give_up(exc, request)
        if eta is not None:
            at = eta if eta.tzinfo is not None else eta.replace(tzinfo=self.celery.zone)
            countdown = max(0.0, (at - SystemClock().now()).total_seconds())
        seconds = self.retrying.delay if countdown is None else read_seconds(countdown, "countdown")
        reason = "the task asked to be retried" if exc is None else f"{type(exc).__name__}: {exc}"
        retry = Retry(timedelta(seconds=seconds), reason)
        if throw:
            raise retry from exc
        return retry

    def _give_up(self, exc: BaseException | None, request: Request) -> NoReturn:
        if exc is not None:
            raise exc
        if request.called_directly:
            raise RuntimeError("self.retry() outside of an attempt: the function was called directly")
        raise MaxRetriesExceededError(f"{self.name} has used its {request.retries} retries")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function here."""
        return self._call(args, kwargs, Request(self.name, args, kwargs))

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], request: Request) -> Any:
        token = _request.set((self, request))
        try:
            return self.run(self, *args, **kwargs) if self._bind else self.run(*args, **kwargs)
        finally:
            _request.reset(token)

    def _attempt(self, arguments: dict[str, Any]) -> Any:
        """What a worker calls."""
        context = current_context()
        assert isinstance(context, SyncContext)
        takes = arguments.pop(_FROM_PARENTS, None)
        if takes is not None:
            assert self._first is not None
            arguments[self._first] = self._results(context, takes)
        missing = [name for name, value in arguments.items() if value is _MISSING]
        if missing:
            raise TypeError(f"{self.name}() misses its argument {missing[0]!r}")
        request = Request(
            self.name, (), arguments, context.job_id, context.run_id, context.attempt - 1, called_directly=False
        )
        token = in_task.set(True)
        try:
            value = self._call((), arguments, request)
        except Signal:
            raise
        except self.retrying.not_on:
            raise
        except self.retrying.on as error:
            self._retry_by_itself(error, request)
        finally:
            in_task.reset(token)
        return None if self._ignores_result else value

    def _retry_by_itself(self, error: BaseException, request: Request) -> NoReturn:
        retrying: Retrying = self.retrying
        if request.retries >= retrying.limit:
            raise error
        bound = retrying.bound(request.retries)
        seconds = random.uniform(0.0, bound) if retrying.jitter and retrying.backoff else bound
        raise Retry(timedelta(seconds=seconds), f"{type(error).__name__}: {error}") from error

    def _results(self, context: SyncContext, takes: str) -> Any:
        parents = sorted(context.parents(), key=lambda each: int((each.name or "0").partition("-")[0]))
        values = []
        for parent in parents:
            task = self.celery.jobs.tasks.get(parent.task or "")
            values.append((plain_result if task is None else task.read_result)(parent.result))
        return values if takes == "all" else values[0]

    def _as_function(self) -> Callable[..., Any]:
        """The function that duetime calls: named like the original, with its parameters and annotations."""

        @functools.wraps(self.run)
        def function(**arguments: Any) -> Any:
            return self._attempt(arguments)

        parameters = []
        for parameter in self._signature.parameters.values():
            if parameter.name == self._first and parameter.default is parameter.empty:
                parameter = parameter.replace(default=_MISSING, kind=parameter.KEYWORD_ONLY)
            elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                parameter = parameter.replace(kind=parameter.KEYWORD_ONLY)
            parameters.append(parameter)
        if self._first is not None:
            added = inspect.Parameter(_FROM_PARENTS, inspect.Parameter.KEYWORD_ONLY, default=None)
            parameters.append(added)
            parameters.sort(key=lambda each: each.kind)
        returns = inspect.Signature.empty if self._ignores_result else self._signature.return_annotation
        function.__signature__ = inspect.Signature(parameters, return_annotation=returns)  # type: ignore[attr-defined]
        return function

    def __getattr__(self, name: str) -> Any:
        hint = _HINTS.get(name)
        known = f"a task of duetime.celery has no attribute {name!r}"
        raise AttributeError(known if hint is None else f"{known}: {hint}")

    def __repr__(self) -> str:
        return f"<duetime.celery task {self.__dict__.get('__name__', '')}>"


def _signature_of(function: Callable[..., Any], *, bind: bool) -> inspect.Signature:
    if inspect.iscoroutinefunction(function):
        raise InvalidInput(
            f"{function.__qualname__} is async, which Celery's tasks are not", field="task", remedy="use @jobs.task"
        )
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if bind:
        if not parameters:
            raise InvalidInput("the function has no parameter for `self`", field="bind", remedy="def task(self, …)")
        parameters = parameters[1:]
    if any(each.name == _FROM_PARENTS for each in parameters):
        raise InvalidInput(f"the layer uses the name {_FROM_PARENTS!r} itself", field="task", remedy="rename it")
    return signature.replace(parameters=parameters)

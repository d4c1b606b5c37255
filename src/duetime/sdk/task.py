"""Tasks: decorated functions that can be submitted.

Arguments and options never share a call. `send.submit(to="x")` takes arguments, `send.options(run_in="10m")` gives a
configured task, and `send.bind(to="x")` gives a `Call`: a task with its arguments, whose methods take options.
"""

import inspect
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

import msgspec

from duetime.errors import InvalidInput
from duetime.model import json
from duetime.model.defaults import Defaults
from duetime.model.name import check_name
from duetime.model.target import check_not_reserved
from duetime.sdk.pending import begins_later
from duetime.sdk.receipt import JobReceipt, Receipt, SyncReceipt
from duetime.spec.derived import OF_SCHEDULES, OF_SUBMISSIONS, OF_TASKS, OPTIONS, Declared
from duetime.spec.options import ScheduleOptions, SubmitOptions, TaskOptions
from duetime.spec.resolved import NOTHING_GIVEN, Resolved, is_told_by_day, merged, resolve, written_defaults
from duetime.worker.context import Context, SyncContext
from duetime.worker.hooks import FailedAttempt, SucceededAttempt
from duetime.worker.middleware import Middleware, check_carried
from duetime.worker.task import TaskDefinition, define

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
FailureHook = TypeVar("FailureHook", bound=Callable[[FailedAttempt], object])

_ELSEWHERE = {
    "delay": "await {}.submit(…)",
    "apply_async": "await {}.options(run_in=…).submit(…)",
    "defer": "await {}.submit(…)",
    "submit_many": "await app.submit_many([{}.bind(…), …])",
}
"""Hints for attributes that exist in other libraries or on other objects."""
_RENAMED = {
    "countdown": "run_in",
    "eta": "run_at",
    "expires": "expires_in",
    "max_retries": "retries",
    "default_retry_delay": "retry",
    "retry_backoff": "retry",
    "autoretry_for": "retry",
    "time_limit": "timeout",
    "soft_time_limit": "timeout",
    "rate_limit": "rate",
    "task_id": "idempotency_key",
}
"""What options of Celery are called here."""


class Bindable(Protocol[R_co]):
    """What can be submitted directly: a call, or a task whose parameters all have defaults."""

    def bind(self) -> "Call[R_co]": ...


class SyncSubmitter(Protocol):
    def submit(self, what: Bindable[R], /, **options: Unpack[SubmitOptions]) -> SyncReceipt[R]: ...
    def schedule(self, what: Bindable[Any], /, **options: Unpack[ScheduleOptions]) -> JobReceipt: ...


class Submitter(Protocol):
    """The app that a task belongs to."""

    def submit(self, what: Bindable[R], /, **options: Unpack[SubmitOptions]) -> Coroutine[Any, Any, Receipt[R]]: ...
    def schedule(
        self, what: Bindable[Any], /, **options: Unpack[ScheduleOptions]
    ) -> Coroutine[Any, Any, JobReceipt]: ...
    @property
    def middlewares(self) -> Sequence[Middleware]: ...
    @property
    def sync(self) -> SyncSubmitter: ...


class Call(msgspec.Struct, Generic[R_co], frozen=True, gc=False):
    """A task and its arguments: a value that can be submitted or scheduled, once or many times."""

    task: "Task[..., R_co]"
    args: Mapping[str, Any]

    def bind(self) -> "Call[R_co]":
        return self

    @begins_later
    def submit(self, **options: Unpack[SubmitOptions]) -> Coroutine[Any, Any, Receipt[R_co]]:
        """Run it once: now, at `run_at`, after `run_in`, or by the words in `when`."""
        return self.task.app.submit(self, **options)

    @begins_later
    def schedule(self, **options: Unpack[ScheduleOptions]) -> Coroutine[Any, Any, JobReceipt]:
        """Run it on a schedule. See `App.schedule`."""
        return self.task.app.schedule(self, **options)

    @property
    def sync(self) -> "SyncCall[R_co]":
        """The same for blocking code."""
        return SyncCall(self)

    def encoded(self, limit: int | None = None) -> bytes:
        """The arguments as they are stored."""
        codec = self.task.codec
        return json.encode(self.args, field="args", limit=limit) if codec is None else codec.encode(self.args, limit)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.args.items())
        return f"{self.task.name}({arguments})"


class SyncCall(msgspec.Struct, Generic[R_co], frozen=True):
    call: Call[R_co]

    def submit(self, **options: Unpack[SubmitOptions]) -> SyncReceipt[R_co]:
        return self.call.task.app.sync.submit(self.call, **options)

    def schedule(self, **options: Unpack[ScheduleOptions]) -> JobReceipt:
        return self.call.task.app.sync.schedule(self.call, **options)


class SyncBindable(Protocol[R_co]):
    def bind(self) -> SyncCall[R_co]: ...


class Task(Generic[P, R_co]):
    """A function that duetime can run. A direct call runs it here, like any function."""

    def __init__(self, app: Submitter, definition: TaskDefinition, declared: Mapping[str, Any]) -> None:
        self.app = app
        self.definition = definition
        self.declared = declared
        """The options of the decorator."""
        self.base = resolve(NOTHING_GIVEN, declared)
        """Their resolved form."""
        self.given: Mapping[str, Any] = {}
        """The options of `options()`."""
        self.resolved: Resolved | None = self.base
        """The resolved form of both; None if it depends on the day of submission."""
        self._over: tuple[Resolved, Resolved, Resolved | None] | None = None
        self.connection: object = None
        self.codec = definition.arguments
        self.function = function = definition.function
        self._required, self._known = definition.required, definition.known
        parameters = definition.signature.parameters.values()
        self._positional = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def defaults(self) -> Defaults:
        """The defaults of its jobs."""
        return written_defaults(self.declared)

    def over(self, usual: Resolved) -> tuple[Resolved, Resolved | None]:
        """`base` and `resolved`, on top of the defaults of a tenant."""
        if usual is NOTHING_GIVEN:
            return self.base, self.resolved
        known = self._over
        if known is None or known[0] is not usual:
            base = resolve(usual, self.declared)
            known = self._over = usual, base, self._resolved(base)
        return known[1], known[2]

    def _resolved(self, base: Resolved) -> Resolved | None:
        return None if is_told_by_day(self.given, base.zone) else resolve(base, self.given)

    @begins_later
    def submit(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Receipt[R_co]]:
        """Run this task once with these arguments: now, or according to `options()`."""
        return self.app.submit(self.bind(*args, **kwargs))

    def bind(self, /, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """This task with these arguments, to be submitted or scheduled."""
        given = self._by_name(args, kwargs) if args else kwargs
        if not (self._required <= given.keys() and (self._known is None or given.keys() <= self._known)):
            raise self._misfit(given)
        return Call(self, given)

    def options(self, /, **options: Unpack[SubmitOptions]) -> Self:
        """The same task with these options, which override those of the decorator."""
        connection = options.pop("connection", self.connection)
        check_options(options, OF_SUBMISSIONS, self)
        configured = object.__new__(type(self))
        configured.__dict__.update(self.__dict__)
        configured.given = merged(self.given, options)
        configured.resolved = configured._resolved(self.base)
        configured._over = None
        configured.connection = connection
        return configured

    @begins_later
    def schedule(self: Bindable[Any], **options: Unpack[ScheduleOptions]) -> Coroutine[Any, Any, JobReceipt]:
        """Run this task on a schedule. Bind its arguments first, if it needs any: `send.bind(to="x").schedule(…)`."""
        return self.bind().schedule(**options)

    def on_success(self, hook: Callable[[SucceededAttempt[R_co]], Any]) -> Callable[[SucceededAttempt[R_co]], Any]:
        """Call this function after each attempt of this task that succeeded. See `App.on_success`."""
        self.definition.hooks.add("on_success", hook)
        return hook

    def on_retry(self, hook: FailureHook) -> FailureHook:
        """Call this function after each failed attempt of this task whose run is tried again."""
        self.definition.hooks.add("on_retry", hook)
        return hook

    def on_failure(self, hook: FailureHook) -> FailureHook:
        """Call this function after each failed attempt of this task that ends its run."""
        self.definition.hooks.add("on_failure", hook)
        return hook

    def read_result(self, body: bytes | None) -> R_co:
        """A stored result, decoded by the return annotation."""
        return self.definition.decode_result(body)  # type: ignore[no-any-return]

    @property
    def sync(self) -> "SyncTask[P, R_co]":
        """The same for blocking code."""
        return SyncTask(self)

    def _by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        names = self._positional[: len(args)]
        if len(args) > len(names) or not kwargs.keys().isdisjoint(names):
            try:
                self.definition.signature.bind(*args, **kwargs)
            except TypeError as error:
                raise self.definition.misfit(error) from None
        return {**dict(zip(names, args, strict=True)), **kwargs}

    def _misfit(self, arguments: Mapping[str, Any]) -> InvalidInput:
        """The error for wrong arguments. If options are among them, it shows the correct call."""
        parameters = self.definition.signature.parameters
        options = [
            name for name in arguments if name not in parameters and (name in OF_SUBMISSIONS or name in _RENAMED)
        ]
        try:
            self.definition.signature.bind(**{name: value for name, value in arguments.items() if name not in options})
        except TypeError as error:
            return self.definition.misfit(error)
        rest = ", ".join(f"{name}=…" for name in arguments if name not in options)
        given = ", ".join(f"{_RENAMED.get(name, name)}=…" for name in options)
        return InvalidInput(
            f"`{options[0]}` is an option, not a parameter of {self.name}",
            field=f"args.{options[0]}",
            remedy=f"{self.__name__}.options({given}).submit({rest})",
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            hint = _ELSEWHERE.get(name)
            known = f"a task has no attribute {name!r}"
            raise AttributeError(known if hint is None else f"{known}: use `{hint.format(self.__name__)}`")

        def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
            return self.definition.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<duetime task {self.name}>"


class SyncTask(Generic[P, R_co]):
    """The blocking methods of a task."""

    def __init__(self, task: Task[P, R_co]) -> None:
        self._task = task

    def submit(self, /, *args: P.args, **kwargs: P.kwargs) -> SyncReceipt[R_co]:
        return self.bind(*args, **kwargs).submit()

    def bind(self, /, *args: P.args, **kwargs: P.kwargs) -> SyncCall[R_co]:
        """See `Task.bind`."""
        return self._task.bind(*args, **kwargs).sync

    def schedule(self: SyncBindable[Any], **options: Unpack[ScheduleOptions]) -> JobReceipt:
        """See `Task.schedule`."""
        return self.bind().schedule(**options)


# The four kinds of functions differ in their direct call: with or without a context, async or not.


class AsyncFunction(Task[P, R_co]):
    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...


class AsyncFunctionWithContext(Task[P, R_co]):
    if TYPE_CHECKING:

        def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...


class Function(Task[P, R_co]):
    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class FunctionWithContext(Task[P, R_co]):
    if TYPE_CHECKING:

        def __call__(self, ctx: SyncContext, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class Anything:
    """The type of a first parameter without a usable annotation (none, `Any`, `object`), which type checkers would
    otherwise treat as the context."""

    _anything: int


class TaskDecorator(Protocol):
    """The result of `@app.task(…)`."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Anything, ...], Coroutine[Any, Any, R]], /
    ) -> AsyncFunction[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Anything, ...], R], /) -> Function[..., R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncFunctionWithContext[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[SyncContext, P], R], /) -> FunctionWithContext[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Function[P, R]: ...


def make_task(
    app: Submitter,
    function: Callable[..., Any],
    *,
    name: str | None = None,
    process: bool = False,
    **options: Unpack[TaskOptions],
) -> Task[..., Any]:
    """Check a function and its options once, when it becomes a task."""
    definition = _define(name, function, process=process, around=app.middlewares)
    unknown = sorted(options.keys() - OF_TASKS.keys())
    if unknown:
        renamed = _RENAMED.get(unknown[0])
        remedy = _meant(unknown[0], OF_TASKS) if renamed not in OF_TASKS else f"it is called `{renamed}` here"
        raise InvalidInput("is not an option of a task", field=unknown[0], remedy=remedy)
    return Task(app, definition, merged({}, options))


def check_options(options: Mapping[str, Any], allowed: Mapping[str, Declared], task: Task[..., Any] | None) -> None:
    """Refuse names that are not options here, and say where they belong."""
    if options.keys() <= allowed.keys():
        return
    unknown = next(name for name in options if name not in allowed)
    if task is not None and unknown in task.definition.signature.parameters:
        raise InvalidInput(
            f"`{unknown}` is a parameter of {task.name}, not an option",
            field=unknown,
            remedy=f"{task.__name__}.bind({unknown}=…), or {task.__name__}.options(…).submit({unknown}=…)",
        )
    if unknown in _RENAMED:
        raise InvalidInput("is not an option", field=unknown, remedy=f"it is called `{_RENAMED[unknown]}` here")
    if unknown in OPTIONS or unknown == "connection":
        method = "schedule" if unknown in OF_SCHEDULES else "submit"
        raise InvalidInput(f"`{unknown}` is not an option here", field=unknown, remedy=f"it goes with `{method}`")
    raise InvalidInput("is not an option", field=unknown, remedy=_meant(unknown, allowed))


def _meant(unknown: str, allowed: Collection[str]) -> str:
    meant = get_close_matches(unknown, allowed, 1)
    return f"did you mean {meant[0]}?" if meant else f"one of {', '.join(allowed)}"


def _define(
    name: str | None, function: Callable[..., Any], *, process: bool, around: Sequence[Middleware]
) -> TaskDefinition:
    if not inspect.isroutine(function):
        raise InvalidInput(f"{function!r} is not a function", field="task", remedy="decorate a def or an async def")
    shown = name or function.__qualname__
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(
            f"{shown} is a generator: its body would never run", field="task", remedy="return instead of yielding"
        )
    if process and "<" in function.__qualname__:
        raise InvalidInput(
            f"{shown} is defined inside another function, so its own process cannot import it",
            field="process",
            remedy="move it to the top level of its module",
        )
    bound_to = getattr(function, "__self__", None)
    if process and bound_to is not None and not inspect.isclass(bound_to):
        raise InvalidInput(
            f"{shown} is the method of an object, which its own process cannot import",
            field="process",
            remedy="use a function or a static method",
        )
    if process:
        for each in around:
            check_carried(each)
    if name is None:
        name = name_of(function)
    return define(check_not_reserved(check_name(name, "task")), function, process=process, around=around)


def name_of(function: Callable[..., Any]) -> str:
    """The name of a task that is given none."""
    module = _module_of(function)
    name = f"{module}.{function.__qualname__}" if module else function.__qualname__
    return name.replace("<locals>.", "").replace("<lambda>", "lambda")


def _module_of(function: Callable[..., Any]) -> str:
    """The module of a function; of a script, the name under which a worker imports it. Empty for an interactive
    session."""
    if function.__module__ not in ("__main__", "__mp_main__"):
        return function.__module__
    found = getattr(function, "__globals__", {})
    spec = found.get("__spec__")
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    stem = Path(found.get("__file__") or "").stem
    return stem if stem.isidentifier() else ""

"""A task as a developer sees it: a decorated function that can also be submitted."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from duetime.errors import InvalidInput
from duetime.model.defaults import Defaults
from duetime.model.name import check_name
from duetime.model.target import check_not_reserved
from duetime.sdk.receipt import Receipt
from duetime.spec.derived import OF_TASKS, OPTIONS
from duetime.spec.options import Duration, TaskOptions
from duetime.spec.resolved import NOTHING_GIVEN, Resolved, resolve
from duetime.worker.task import TaskDefinition, define

if TYPE_CHECKING:
    from duetime.sdk.app import App

P = ParamSpec("P")
R = TypeVar("R")

NAMES = {"job_name": "name"}
"""Options that have another name here, since parameters of tasks are often called so."""
_NOT_HERE = {"name", "owner", "payload_ref"}
RESERVED = frozenset({*(OPTIONS.keys() - _NOT_HERE), *NAMES, "connection", "args", "target", "callback_url"})
"""What `submit` and `schedule` take for themselves; a task's parameters may not be called so."""


class Task(Generic[P, R]):
    """A function that duetime can run. Calling it runs it here and now, as if it were not a task."""

    def __init__(self, app: "App", definition: TaskDefinition, resolved: Resolved, function: Callable[P, R]) -> None:
        self._app = app
        self.definition = definition
        self.resolved = resolved
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def defaults(self) -> Defaults:
        """What its jobs get unless a submission says otherwise."""
        return self.resolved.defaults

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    async def submit(
        self,
        /,
        *,
        run_at: datetime | str | None = None,
        run_in: Duration | None = None,
        when: str | None = None,
        args: Mapping[str, Any] | None = None,
        connection: object = None,
        **arguments: Any,
    ) -> Receipt:
        """Run this task once: now, at a time, or after a delay. Further options are those of `App.submit`."""
        return await self._app.submit(
            self, run_at=run_at, run_in=run_in, when=when, args=args, connection=connection, **arguments
        )

    async def submit_many(self, batch: Iterable[Mapping[str, Any]], /, **options: Any) -> list[Receipt]:
        """Run this task once for each set of arguments; all are stored, or none."""
        return await self._app.submit_many(self, batch, **options)

    async def schedule(
        self,
        /,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        when: str | None = None,
        rrule: str | None = None,
        tz: str | None = None,
        args: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> Receipt:
        """Run this task again and again, on a cron line, on a recurrence rule, at an interval or as words say. Further
        options are those of `App.schedule`."""
        return await self._app.schedule(
            self, cron=cron, every=every, when=when, rrule=rrule, tz=tz, args=args, **arguments
        )

    def __repr__(self) -> str:
        return f"<duetime task {self.name}>"


def make_task(
    app: "App",
    function: Callable[..., Any],
    *,
    name: str | None = None,
    process: bool = False,
    **options: Unpack[TaskOptions],
) -> Task[..., Any]:
    """Check a function and its options once, when it becomes a task."""
    definition = _define(name, function, process=process)
    unknown = sorted(options.keys() - OF_TASKS.keys())
    if unknown:
        raise InvalidInput("is not an option of a task", field=unknown[0], remedy=f"one of {', '.join(OF_TASKS)}")
    return Task(app, definition, resolve(NOTHING_GIVEN, options), function)


def _define(name: str | None, function: Callable[..., Any], *, process: bool) -> TaskDefinition:
    if not inspect.isroutine(function):
        raise InvalidInput(f"{function!r} is not a function", field="task", remedy="decorate a def or an async def")
    shown = name or function.__qualname__
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(
            f"{shown} is a generator, whose body would never run", field="task", remedy="return instead of yielding"
        )
    if process and "<" in function.__qualname__:
        raise InvalidInput(
            f"{shown} is made inside another function, where a process of its own cannot find it",
            field="process",
            remedy="move it to the top level of its module",
        )
    if name is None:
        module = "" if function.__module__ in ("__main__", "__mp_main__") else f"{function.__module__}."
        name = f"{module}{function.__qualname__}".replace("<locals>.", "").replace("<lambda>", "lambda")
    definition = define(check_not_reserved(check_name(name, "task")), function, process=process)
    taken = sorted(RESERVED & definition.signature.parameters.keys())
    if taken:
        raise InvalidInput(
            f"{name} has a parameter called {taken[0]!r}, which is an option of submit",
            field="task",
            remedy="call it something else",
        )
    return definition

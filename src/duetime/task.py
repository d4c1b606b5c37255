"""A task as a developer sees it: a decorated function that can also be submitted."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar

import msgspec

from duetime.duration import parse_duration
from duetime.engine.intake import check_timeout
from duetime.errors import InvalidInput
from duetime.model.job import DEFAULT_OPTIONS, DEFAULT_QUEUE, Options
from duetime.model.lane import Tier
from duetime.model.name import check_key, check_name
from duetime.model.policy import (
    Misfire,
    MisfireMode,
    Overlap,
    make_jitter,
    make_max_runs,
    make_misfire,
    make_overlap,
)
from duetime.model.retry import RetryPolicy
from duetime.receipt import Receipt
from duetime.worker.task import TaskDefinition, define

if TYPE_CHECKING:
    from duetime.app import App

P = ParamSpec("P")
R = TypeVar("R")

Priority = Literal["HIGH", "MEDIUM", "LOW"]
Delivery = Literal["at_least_once", "at_most_once"]
Duration = str | float | timedelta
MOST_RETRIES = 1000

RESERVED = frozenset(
    {
        "run_at",
        "run_in",
        "cron",
        "every",
        "when",
        "tz",
        "start_at",
        "end_at",
        "exclude",
        "key",
        "idempotency_key",
        "queue",
        "priority",
        "retries",
        "retry",
        "timeout",
        "job_name",
        "tags",
        "delivery",
        "misfire",
        "overlap",
        "jitter",
        "max_runs",
        "connection",
        "args",
    }
)
"""What `submit` and `schedule` take for themselves; a task's parameters may not be called so."""


class Defaults(msgspec.Struct, frozen=True):
    """What a task's jobs get unless a submission says otherwise."""

    queue: str = DEFAULT_QUEUE
    tier: Tier = Tier.MEDIUM
    timeout: timedelta | None = None
    options: Options = DEFAULT_OPTIONS


class Task(Generic[P, R]):
    """A function that duetime can run. Calling it runs it here and now, as if it were not a task."""

    def __init__(self, app: "App", definition: TaskDefinition, defaults: Defaults, function: Callable[P, R]) -> None:
        self._app = app
        self.definition = definition
        self.defaults = defaults
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__

    @property
    def name(self) -> str:
        return self.definition.name

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
        tz: str | None = None,
        args: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> Receipt:
        """Run this task again and again, on a cron line, at an interval or as words say. Further options are those of
        `App.schedule`."""
        return await self._app.schedule(self, cron=cron, every=every, when=when, tz=tz, args=args, **arguments)

    def __repr__(self) -> str:
        return f"<duetime task {self.name}>"


def make_task(
    app: "App",
    function: Callable[..., Any],
    *,
    name: str | None = None,
    queue: str = DEFAULT_QUEUE,
    priority: Priority = "MEDIUM",
    retries: int | None = None,
    retry: RetryPolicy | None = None,
    timeout: Duration | None = None,
    delivery: Delivery = "at_least_once",
    process: bool = False,
) -> Task[..., Any]:
    """Check a function and its options once, when it becomes a task."""
    definition = _define(name, function, process=process)
    options = make_options(DEFAULT_OPTIONS, retries=retries, retry=retry, delivery=delivery)
    limit = None if timeout is None else check_duration(timeout, "timeout")
    if limit is not None:
        check_timeout(limit)
    return Task(app, definition, Defaults(check_name(queue, "queue"), check_tier(priority), limit, options), function)


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
    definition = define(check_name(name, "task"), function, process=process)
    taken = sorted(RESERVED & definition.signature.parameters.keys())
    if taken:
        raise InvalidInput(
            f"{name} has a parameter called {taken[0]!r}, which is an option of submit",
            field="task",
            remedy="call it something else",
        )
    return definition


def make_options(
    base: Options,
    *,
    job_name: str | None = None,
    tags: Sequence[str] = (),
    retries: int | None = None,
    retry: RetryPolicy | None = None,
    delivery: Delivery | None = None,
    key: str | None = None,
) -> Options:
    """The options of a job: what the task says, changed by what the submission says."""
    if job_name is None and not tags and retries is None and retry is None and delivery is None and key is None:
        return base
    policy = base.retry if retry is None else check_retry(retry)
    if retries is not None:
        policy = msgspec.structs.replace(policy, retries=_count(retries, "retries"))
    at_most_once = base.at_most_once if delivery is None else check_delivery(delivery)
    if at_most_once:
        if retries or (retry is not None and retry.retries):
            raise InvalidInput(
                "at_most_once means that nothing is tried again", field="retries", remedy="leave retries out"
            )
        policy = msgspec.structs.replace(policy, retries=0)
    return msgspec.structs.replace(
        base,
        name=base.name if job_name is None else check_key(job_name, "job_name"),
        tags=check_tags(tags) or base.tags,
        retry=policy,
        at_most_once=at_most_once,
        key=base.key if key is None else key,
    )


def add_policies(
    options: Options,
    misfire: Misfire | MisfireMode | None,
    overlap: Overlap | None,
    jitter: Duration | None,
    max_runs: int | None,
) -> Options:
    """The options of a recurring job, with its policies."""
    if misfire is None and overlap is None and jitter is None and max_runs is None:
        return options
    return msgspec.structs.replace(
        options,
        misfire=options.misfire if misfire is None else make_misfire(misfire),
        overlap=options.overlap if overlap is None else make_overlap(overlap),
        jitter=options.jitter if jitter is None else make_jitter(jitter),
        max_runs=options.max_runs if max_runs is None else make_max_runs(max_runs),
    )


def check_retry(policy: RetryPolicy) -> RetryPolicy:
    """A policy that can be stored: exception classes become their names."""
    if not isinstance(policy, RetryPolicy):
        raise InvalidInput(
            f"must be a RetryPolicy, not {type(policy).__name__}", field="retry", remedy="duetime.RetryPolicy(…)"
        )
    for field in ("base", "factor", "cap"):
        value = getattr(policy, field)
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            raise InvalidInput(f"{value!r} is not a number of seconds or a factor", field=f"retry.{field}")
    return msgspec.structs.replace(
        policy,
        retries=_count(policy.retries, "retry.retries"),
        lost_retries=_count(policy.lost_retries, "retry.lost_retries"),
        retry_on=_error_names(policy.retry_on, "retry.retry_on"),
        give_up_on=_error_names(policy.give_up_on, "retry.give_up_on"),
    )


def check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise InvalidInput(f"{tags!r} is not a list of tags", field="tags", remedy="such as ['billing', 'eu']")
    return tuple(check_name(tag, "tags") for tag in tags)


def check_delivery(delivery: str) -> bool:
    if delivery not in ("at_least_once", "at_most_once"):
        raise InvalidInput(f"{delivery!r} is not a delivery", field="delivery", remedy="at_least_once or at_most_once")
    return delivery == "at_most_once"


def check_tier(priority: str) -> Tier:
    if not isinstance(priority, str) or priority not in Tier.__members__:
        raise InvalidInput(f"{priority!r} is not a priority", field="priority", remedy="HIGH, MEDIUM or LOW")
    return Tier[priority]


def check_duration(value: Duration, field: str) -> timedelta:
    try:
        return parse_duration(value)
    except (ValueError, TypeError) as error:
        raise InvalidInput(str(error), field=field) from None


def _count(value: object, field: str) -> int:
    if type(value) is not int or not 0 <= value <= MOST_RETRIES:
        raise InvalidInput(f"{value!r} is not a number of retries", field=field, remedy=f"0 to {MOST_RETRIES}")
    return value


def _error_names(names: object, field: str) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidInput(f"{names!r} is not a tuple", field=field, remedy="such as (ConnectionError, 'shop.SoldOut')")
    return tuple(_error_name(name, field) for name in names)


def _error_name(name: object, field: str) -> str:
    if isinstance(name, type) and issubclass(name, BaseException):
        return f"{name.__module__}.{name.__qualname__}".removeprefix("builtins.")
    return check_name(name, field)

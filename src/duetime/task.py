"""A task as a developer sees it: a decorated function that can also be submitted."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar

import msgspec

from duetime.duration import parse_duration
from duetime.errors import InvalidInput
from duetime.model.job import DEFAULT_OPTIONS, DEFAULT_QUEUE, Options
from duetime.model.lane import Tier
from duetime.model.name import check_name
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

RESERVED = frozenset(
    {
        "run_at",
        "run_in",
        "cron",
        "every",
        "tz",
        "start_at",
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
        *,
        run_at: datetime | str | None = None,
        run_in: Duration | None = None,
        args: Mapping[str, Any] | None = None,
        connection: object = None,
        **arguments: Any,
    ) -> Receipt:
        """Run this task once: now, at a time, or after a delay. Further options are those of `App.submit`."""
        return await self._app.submit(self, run_at=run_at, run_in=run_in, args=args, connection=connection, **arguments)

    async def submit_many(self, batch: Sequence[Mapping[str, Any]], **options: Any) -> list[Receipt]:
        """Run this task once for each set of arguments; all are stored, or none."""
        return await self._app.submit_many(self, batch, **options)

    def __repr__(self) -> str:
        return f"<duetime task {self.name}>"


def make_definition(name: str | None, function: Callable[..., Any], *, process: bool) -> TaskDefinition:
    """Check a function once, when it becomes a task."""
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
    policy = retry or base.retry
    if retries is not None:
        if type(retries) is not int or not 0 <= retries <= 1000:
            raise InvalidInput(f"{retries!r} is not a number of retries", field="retries", remedy="0 to 1000")
        policy = msgspec.structs.replace(policy, retries=retries)
    at_most_once = base.at_most_once if delivery is None else check_delivery(delivery)
    if at_most_once:
        if retries or (retry is not None and retry.retries):
            raise InvalidInput(
                "at_most_once means that nothing is tried again", field="retries", remedy="leave retries out"
            )
        policy = msgspec.structs.replace(policy, retries=0)
    return Options(
        job_name if job_name is not None else base.name,
        tuple(check_name(tag, "tags") for tag in tags) or base.tags,
        policy,
        at_most_once,
        key if key is not None else base.key,
    )


def check_delivery(delivery: str) -> bool:
    if delivery not in ("at_least_once", "at_most_once"):
        raise InvalidInput(f"{delivery!r} is not a delivery", field="delivery", remedy="at_least_once or at_most_once")
    return delivery == "at_most_once"


def check_tier(priority: str) -> Tier:
    try:
        return Tier[priority]
    except KeyError:
        raise InvalidInput(f"{priority!r} is not a priority", field="priority", remedy="HIGH, MEDIUM or LOW") from None


def check_duration(value: Duration, field: str) -> timedelta:
    try:
        return parse_duration(value)
    except (ValueError, TypeError) as error:
        raise InvalidInput(str(error), field=field) from None

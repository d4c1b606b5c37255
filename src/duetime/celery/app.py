"""`Celery(name, jobs)`: Celery's decorator and configuration, on an app of duetime."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from datetime import tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from duetime.celery.beat import read_beat
from duetime.celery.canvas import Signature
from duetime.celery.current import Owner, current, current_if_made, make_current, no_app
from duetime.celery.results import AsyncResult
from duetime.celery.task import CeleryTask
from duetime.errors import InvalidInput, NotFound
from duetime.model.schedule import check_zone
from duetime.sdk.app import App

_MODULES = "import these modules at the end of this one: app.autodiscover_tasks(['shop.orders', …], related_name=None)"
_CONF = {
    "broker_url": "remove it: jobs are in the database of duetime.App (DUETIME_DATABASE_URL)",
    "broker_connection_retry_on_startup": "remove it: duetime waits for its database",
    "imports": _MODULES,
    "include": _MODULES,
    "result_backend": "remove it: results are kept with their runs",
    "result_expires": "use the setting `retention`",
    "task_always_eager": "use duetime.testing",
    "task_annotations": "give the options to the decorators",
    "task_default_queue": "remove it: the queue is `default`; or give queue= to the decorators",
    "task_ignore_result": "give ignore_result=True to the decorators",
    "task_queues": "remove it: a queue exists when a job uses it",
    "task_routes": "give queue= to the decorators",
    "task_soft_time_limit": "no exception interrupts a function: give time_limit= to the decorators",
    "task_time_limit": "give time_limit= to the decorators",
    "worker_concurrency": "use the settings `threads` and `processes`",
    "worker_max_tasks_per_child": "remove it",
    "worker_prefetch_multiplier": "remove it: a worker claims what it can start",
}
_FACTS: dict[str, Any] = {
    "accept_content": ["json"],
    "enable_utc": True,
    "result_serializer": "json",
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "task_serializer": "json",
    "task_track_started": True,
}
"""What duetime does anyway: a configuration may say so."""
_APP = {
    "control": "use app.cancel of duetime.App, or the commands `duetime workers` and `duetime queues`",
    "on_after_configure": "set app.conf.beat_schedule",
    "on_after_finalize": "set app.conf.beat_schedule",
    "add_periodic_task": "set app.conf.beat_schedule",
    "register_task": "decorate the function with @app.task",
    "start": "use the command `duetime worker module:jobs`, or jobs.start()",
    "worker_main": "use the command `duetime worker module:jobs`, or jobs.start()",
    "Task": "tasks are functions: share code with a decorator of your own",
    "backend": "results are in duetime's store: use AsyncResult(id)",
}

_waiting: list["SharedTask"] = []
"""Shared tasks that were decorated before there was an app."""


class Conf:
    """The configuration that has a meaning here: `timezone` and `beat_schedule`."""

    timezone: str
    beat_schedule: Mapping[str, Mapping[str, Any]]

    def __init__(self) -> None:
        self.__dict__.update(timezone="UTC", beat_schedule={})

    def __setattr__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def update(self, given: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Refuses everything if one name is refused."""
        everything = {**(given or {}), **more}
        changes = {name: value for name, value in everything.items() if name not in _FACTS or value != _FACTS[name]}
        refused = {name: _remedy(name) for name in changes if name not in self.__dict__}
        if len(refused) == 1:
            ((name, remedy),) = refused.items()
            raise InvalidInput("is not supported by duetime.celery", field=f"conf.{name}", remedy=remedy)
        if refused:
            raise InvalidInput(
                f"{', '.join(refused)} are not supported by duetime.celery",
                field="conf",
                remedy="; ".join(f"{name}: {remedy}" for name, remedy in refused.items()),
            )
        if "timezone" in changes:
            changes["timezone"] = check_zone(str(changes["timezone"]))
        self.__dict__.update(changes)


def _remedy(name: str) -> str:
    if name in _FACTS:
        return f"remove it: it is always {_FACTS[name]!r}"
    return _CONF.get(name, "remove it; supported are: timezone, beat_schedule")


class Celery:
    """The tasks of a project that still have Celery's interface."""

    def __init__(self, main: str, jobs: App | None = None, **given: Any) -> None:
        """`jobs` is the app that stores and runs them."""
        if not isinstance(jobs, App):
            raise InvalidInput(
                "a `duetime.App` is required",
                field="jobs",
                remedy=f'jobs = duetime.App(); Celery("{main}", jobs)',
            )
        self.conf = Conf()
        if given:
            named = {"broker": "broker_url", "backend": "result_backend"}
            self.conf.update({named.get(name, name): value for name, value in given.items()})
        self.main = main
        self.jobs = jobs
        self.tasks: dict[str, CeleryTask] = {}
        make_current(self)
        while _waiting:
            _waiting.pop(0).made_in(self)

    def task(self, *function: Callable[..., Any], **options: Any) -> Any:
        """Make a function a task: `@app.task`, or `@app.task(bind=True, …)` with Celery's options."""

        def decorate(function: Callable[..., Any]) -> CeleryTask:
            task = CeleryTask(self, function, options)
            self.tasks[task.name] = task
            return task

        return decorate(*function) if function else decorate

    @property
    def zone(self) -> tzinfo:
        """The zone of times without offset."""
        return ZoneInfo(self.conf.timezone)

    def signature(self, name: str, *args: Any, **kwargs: Any) -> Signature:
        """A signature of a task by its name: `signature("shop.tasks.add", args=(1, 2))`."""
        return self._task(name).signature(*args, **kwargs)

    def send_task(
        self, name: str, args: Iterable[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncResult:
        """Submit a task by its name."""
        return self._task(name).apply_async(args, kwargs, **options)

    def AsyncResult(self, id: str) -> AsyncResult:
        return AsyncResult(id, self)

    def autodiscover_tasks(self, packages: Iterable[str] | None = None, related_name: str | None = "tasks") -> None:
        """Import the module `tasks` of each package, now; without `related_name`, the modules themselves. Call it after
        everything that these modules import from this one."""
        if packages is None or isinstance(packages, str):
            raise InvalidInput("needs a list of packages", field="packages", remedy="such as ['shop']")
        for package in packages:
            importlib.import_module(package if related_name is None else f"{package}.{related_name}")

    def config_from_object(self, given: Any, namespace: str | None = None) -> None:
        """Take `timezone` and `beat_schedule` from a module, a class or a dict; other names of Celery are refused."""
        if isinstance(given, str):
            module, _, attribute = given.partition(":")
            given = importlib.import_module(module)
            given = getattr(given, attribute) if attribute else given
        found = given if isinstance(given, Mapping) else {name: getattr(given, name) for name in dir(given)}
        prefix = "" if namespace is None else f"{namespace}_"
        known = {"timezone", "beat_schedule", *_CONF, *_FACTS}
        named = {name.removeprefix(prefix).lower(): value for name, value in found.items() if name.startswith(prefix)}
        self.conf.update({name: value for name, value in named.items() if name in known or prefix})

    async def schedule_beat(self) -> None:
        """Store `conf.beat_schedule` as recurring jobs: once, however often it is called.
        `jobs.on_start(app.schedule_beat)` keeps them as the code says. A removed entry stays until it is cancelled."""
        entries, left_out = read_beat(self.conf.beat_schedule, self.conf.timezone, self.parameters)
        if left_out:
            raise InvalidInput(left_out[0].reason, field=f"beat_schedule.{left_out[0].name}")
        for entry in entries:
            if entry.task not in self.jobs.tasks:
                raise NotFound(f"there is no task {entry.task!r}", field=f"beat_schedule.{entry.name}.task")
        for entry in entries:
            call = self.jobs.tasks[entry.task].bind(**entry.args)
            await self.jobs.schedule(call, **entry.options)

    def parameters(self, task: str) -> list[str] | None:
        """The names of a task's parameters, in order; None if it is unknown."""
        if task in self.tasks:
            return self.tasks[task].parameters
        native = self.jobs.tasks.get(task)
        return None if native is None else list(native.definition.signature.parameters)

    def _task(self, name: str) -> CeleryTask:
        if name not in self.tasks:
            known = ", ".join(sorted(self.tasks)) or "none"
            raise NotFound(f"there is no task {name!r} in this app", field="name", remedy=f"it has: {known}")
        return self.tasks[name]

    def __getattr__(self, name: str) -> Any:
        hint = _APP.get(name)
        known = f"Celery of duetime.celery has no attribute {name!r}"
        raise AttributeError(known if hint is None else f"{known}: {hint}")


class SharedTask:
    """A task of the app that exists by the time it is used."""

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        for name in ("time_limit", "process"):
            if options.get(name):
                raise InvalidInput(
                    "the process of a shared task would not find its app", field=name, remedy=f"use @app.task({name}=…)"
                )
        self.__dict__.update(_function=function, _options=options, _made=None)
        if (app := current_if_made()) is None:
            _waiting.append(self)
        else:
            self.made_in(app)

    def made_in(self, app: Owner) -> None:
        self.__dict__["_made"] = app.task(**self._options)(self._function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._task()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._task(), name)

    def _task(self) -> CeleryTask:
        if self._made is None:
            raise no_app(f"{self._function.__qualname__} belongs to no app yet")
        made: CeleryTask = self._made
        return made


def shared_task(*function: Callable[..., Any], **options: Any) -> Any:
    """A task of the project's `Celery(…)`, for modules that do not import it."""

    def decorate(function: Callable[..., Any]) -> SharedTask:
        return SharedTask(function, options)

    return decorate(*function) if function else decorate


def signature(name: str, *args: Any, **kwargs: Any) -> Any:
    """See `Celery.signature`."""
    return current().signature(name, *args, **kwargs)

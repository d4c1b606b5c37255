"""`import-beat` and `import-apscheduler`: schedules of other programs become jobs; the plan is shown first."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from duetime.cli.app_loader import load_object
from duetime.cli.imports import Found, Skipped, import_jobs
from duetime.cli.server_commands import ServerCommand, Yes, server_command
from duetime.errors import InvalidInput

Queue = Annotated[str | None, typer.Option("--queue", help="The queue of the jobs.")]


@server_command
def import_beat(
    command: ServerCommand,
    source: Annotated[str, typer.Argument(help="module:app with a Celery app, or module:dict with its schedule.")],
    tz: Annotated[str | None, typer.Option("--tz", help="The time zone of a dict. An app has its own.")] = None,
    queue: Queue = None,
    yes: Yes = False,
) -> None:
    """Turn the beat schedule of Celery into jobs. Shows what each entry becomes before anything is stored.

    Importing the same schedule again changes nothing.
    """
    from duetime.celery.beat import read_beat

    entries, zone, parameters = _beat(load_object(source, "shop.celery:app"), tz)
    found, left_out = read_beat(entries, zone, parameters)
    first = {} if queue is None else {"queue": queue}
    planned = [
        Found(each.name, {"task": each.task, "args": each.args, **first, **each.options}, each.notes) for each in found
    ]
    import_jobs(command, planned, [Skipped(each.name, each.reason) for each in left_out], yes=yes)


@server_command
def import_apscheduler(
    command: ServerCommand,
    source: Annotated[str, typer.Argument(help="module:scheduler, or module:jobstore, of APScheduler 3.")],
    queue: Queue = None,
    yes: Yes = False,
) -> None:
    """Turn the jobs of APScheduler into jobs. Shows what each becomes before anything is stored.

    Importing the same jobs again changes nothing.
    """
    from duetime.cli.apscheduler_jobs import jobs_of, read_jobs

    found, skipped = read_jobs(jobs_of(load_object(source, "shop.jobs:scheduler")), queue)
    import_jobs(command, found, skipped, yes=yes)


def _beat(given: Any, tz: str | None) -> tuple[Mapping[str, Mapping[str, Any]], str, Callable[[str], list[str] | None]]:
    """The entries, their time zone, and the parameters of tasks that are known."""
    if isinstance(given, Mapping):
        return given, tz or "UTC", lambda _: None
    conf = getattr(given, "conf", None)
    if conf is None or not hasattr(conf, "beat_schedule"):
        raise InvalidInput(
            f"{type(given).__name__} is neither a Celery app nor a dict",
            field="source",
            remedy="such as shop.celery:app",
        )
    if tz is not None:
        raise InvalidInput("the app has its own time zone", field="tz", remedy="omit it")
    zone = conf.timezone or given.timezone
    return conf.beat_schedule, str(zone), lambda task: _parameters(given.tasks.get(task))


def _parameters(task: Any) -> list[str] | None:
    if task is None:
        return None
    return getattr(task, "parameters", None) or list(inspect.signature(task.run).parameters)

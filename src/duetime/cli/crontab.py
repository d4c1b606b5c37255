"""`import-crontab`: turns an existing crontab into jobs; shows the plan first."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.markup import escape

from duetime.cli.crontab_lines import Entry, LeftOut, read_crontab
from duetime.cli.local_zone import local_zone
from duetime.cli.output import err, out
from duetime.cli.server_commands import ServerCommand, read_lines, server_command
from duetime.errors import InvalidInput

_NAME = 80


class Planned(msgspec.Struct, frozen=True):
    """A line of the crontab as the job that it becomes."""

    line: int
    sentence: str
    tz: str
    next_run: datetime | None
    command: str


@server_command
def import_crontab(
    command: ServerCommand,
    file: Annotated[Path, typer.Argument(help="The crontab; - reads standard input: crontab -l | duetime …")],
    task: Annotated[str, typer.Option("--task", help="The task that runs a command.")] = "shell",
    system: Annotated[bool, typer.Option("--system", help="Lines name a user, as in /etc/crontab.")] = False,
    tz: Annotated[
        str | None, typer.Option("--tz", help="The time zone of lines without CRON_TZ. Default: this machine's.")
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="The queue of the jobs.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Turn a crontab into jobs. Shows what each line means before anything is stored.

    Each line becomes a recurring job for a task that takes `command` (and `stdin`, `env`, `user` where the crontab has
    them). Importing the same file again changes nothing.
    """
    entries, left_out = read_crontab(read_lines(file), system=system)
    zone = tz or _machine_zone()
    good, planned = _plan(command, entries, left_out, zone)
    command.table(planned, "line when=sentence tz next_run command", "the file has no line to import")
    for each in sorted(left_out, key=lambda each: each.line):
        err.print(
            f"[yellow]line {each.line} is skipped[/] ({escape(each.reason)}): {escape(each.text)}", soft_wrap=True
        )
    if not good:
        raise InvalidInput("contains no line to import", field="file")
    is_served = any(each.name == task for each in command.client.list_tasks().items)
    if not command.json:
        if tz is None and any(entry.tz is None for entry in good):
            err.print(
                f"[dim]times without CRON_TZ are read in this machine's zone, {zone}; --tz names another[/]",
                soft_wrap=True,
            )
        if not is_served:
            told = f"no worker has the task {task}: the jobs wait until one has it (docs/cli.md has an example)"
            err.print(f"[yellow]{escape(told)}[/]", soft_wrap=True)
    if not yes and (command.json or not _agreed(len(good))):
        return
    answer = command.client.create_jobs([_job(entry, task, zone, queue) for entry in good])
    fresh = sum(1 for item in answer.items if item.job is not None and item.job.created)
    command.say(
        f"stored {fresh} jobs, {answer.stored - fresh} existed already",
        stored=fresh,
        known=answer.stored - fresh,
        left_out=len(left_out),
        has_worker=is_served,
    )


def _plan(
    command: ServerCommand, entries: list[Entry], left_out: list[LeftOut], zone: str
) -> tuple[list[Entry], list[Planned]]:
    """The entries that can be stored, and their meaning; the rest is added to `left_out`."""
    good, planned = [], []
    for entry in entries:
        try:
            preview = command.client.preview_schedule(cron=entry.cron, tz=entry.tz or zone, count=1)
        except InvalidInput as error:
            left_out.append(LeftOut(entry.line, f"{entry.cron} {entry.command}", error.message))
            continue
        next_run = preview.fires[0].utc if preview.fires else None
        good.append(entry)
        planned.append(Planned(entry.line, preview.schedule.sentence, entry.tz or zone, next_run, entry.command))
    return good, planned


def _job(entry: Entry, task: str, zone: str, queue: str | None) -> dict[str, object]:
    job = {
        "task": task,
        "args": entry.args,
        "cron": entry.cron,
        "tz": entry.tz or zone,
        "queue": queue,
        "key": entry.key,
        "name": entry.command[:_NAME],
        # Cron does not make up for missed runs.
        "misfire": "skip",
    }
    return {name: value for name, value in job.items() if value is not None}


def _machine_zone() -> str:
    """Cron reads times without CRON_TZ by the clock of its machine."""
    zone = local_zone()
    if zone is None:
        raise InvalidInput("the time zone of this machine is not known", field="tz", remedy="give it with --tz")
    return zone


def _agreed(count: int) -> bool:
    out.print()
    return typer.confirm(f"Create {count} jobs?")

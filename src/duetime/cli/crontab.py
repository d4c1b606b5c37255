"""`import-crontab`: turns an existing crontab into jobs; shows the plan first."""

from pathlib import Path
from typing import Annotated

import typer

from duetime.cli.crontab_lines import Entry, read_crontab
from duetime.cli.imports import Found, Skipped, import_jobs
from duetime.cli.local_zone import local_zone
from duetime.cli.output import err
from duetime.cli.server_commands import ServerCommand, read_lines, server_command
from duetime.errors import InvalidInput

_NAME = 80


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
    if not command.json and tz is None and any(entry.tz is None for entry in entries):
        err.print(
            f"[dim]times without CRON_TZ are read in this machine's zone, {zone}; --tz names another[/]", soft_wrap=True
        )
    found = [Found(f"line {entry.line}", _job(entry, task, zone, queue)) for entry in entries]
    skipped = [Skipped(f"line {each.line}", f"{each.reason}: {each.text}") for each in left_out]
    import_jobs(command, found, skipped, yes=yes)


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

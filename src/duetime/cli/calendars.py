"""`calendars`: named sets of days that jobs exclude."""

from pathlib import Path
from typing import Annotated

import typer

from duetime.cli import completion
from duetime.cli.groups import group
from duetime.cli.server_commands import ServerCommand, list_command, read_lines, server_command
from duetime.errors import InvalidInput

application = group("Calendars: days that jobs exclude, such as holidays.")

CalendarName = Annotated[str, typer.Argument(metavar="NAME", autocompletion=completion.calendar)]


@application.command("list")
@list_command
def list_calendars(command: ServerCommand) -> None:
    """List the calendars, with the number of jobs that exclude their days."""
    command.table(
        command.client.list_calendars().items,
        "calendar=name days first last jobs",
        "no calendars. Create one: duetime calendars put NAME DATE…",
        days=lambda calendar: len(calendar.dates),
        first=lambda calendar: min(calendar.dates, default=None),
        last=lambda calendar: max(calendar.dates, default=None),
    )


@application.command()
@server_command
def show(command: ServerCommand, name: CalendarName) -> None:
    """Show one calendar, with its days."""
    command.show(command.client.get_calendar(name))


@application.command()
@server_command
def put(
    command: ServerCommand,
    name: CalendarName,
    dates: Annotated[list[str] | None, typer.Argument(metavar="DATE…", help="Its days, such as 2026-12-25.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="A file with one day per line (- reads standard input).")
    ] = None,
    empty: Annotated[bool, typer.Option("--empty", help="Store a calendar without days.")] = False,
) -> None:
    """Create or replace a calendar. It takes effect for all jobs that use it."""
    days = [*(dates or ()), *(_days(file) if file is not None else ())]
    if not days and not empty:
        raise InvalidInput("at least one day is required", field="dates", remedy="give days, --file or --empty")
    if days and empty:
        raise InvalidInput("cannot be combined with days", field="empty", remedy="give one of them")
    command.show(command.client.put_calendar(name, days))


@application.command()
@server_command
def delete(command: ServerCommand, name: CalendarName) -> None:
    """Delete a calendar that no job uses."""
    command.show(command.client.delete_calendar(name))


def _days(file: Path) -> list[str]:
    """The text before `#` in each line."""
    lines = (line.partition("#")[0].strip() for line in read_lines(file))
    return [line for line in lines if line]

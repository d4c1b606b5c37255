"""`calendars`: days with a name, for jobs to leave out."""

from pathlib import Path
from typing import Annotated

import typer

from duetime.cli.groups import group
from duetime.cli.server_commands import Talk, read_lines, talks
from duetime.errors import InvalidInput

application = group("Calendars: days that jobs leave out, such as holidays.")

CalendarName = Annotated[str, typer.Argument(metavar="NAME")]


@application.command("list")
@talks
def list_calendars(talk: Talk) -> None:
    """List the calendars, with how many jobs leave out their days."""
    columns = {
        "calendar": lambda calendar: calendar.name,
        "days": lambda calendar: len(calendar.dates),
        "first": lambda calendar: min(calendar.dates, default=None),
        "last": lambda calendar: max(calendar.dates, default=None),
        "jobs": lambda calendar: calendar.jobs,
    }
    talk.table(talk.client.list_calendars().items, columns)


@application.command()
@talks
def show(talk: Talk, name: CalendarName) -> None:
    """Show one calendar, with its days."""
    talk.show(talk.client.get_calendar(name))


@application.command()
@talks
def put(
    talk: Talk,
    name: CalendarName,
    dates: Annotated[list[str] | None, typer.Argument(metavar="DATE…", help="Its days, such as 2026-12-25.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="A file of days, one a line (- reads them from a pipe).")
    ] = None,
    empty: Annotated[bool, typer.Option("--empty", help="It shall hold no day at all.")] = False,
) -> None:
    """Say which days a calendar holds, new or not: all jobs that use it go by them from now on."""
    days = [*(dates or ()), *(_days(file) if file is not None else ())]
    if not days and not empty:
        raise InvalidInput("no day is named", field="dates", remedy="name days, give --file, or say --empty")
    if days and empty:
        raise InvalidInput("it cannot be empty and hold days", field="empty", remedy="leave one of them out")
    talk.show(talk.client.put_calendar(name, days))


@application.command()
@talks
def delete(talk: Talk, name: CalendarName) -> None:
    """Delete a calendar that no job uses."""
    talk.show(talk.client.delete_calendar(name))


def _days(file: Path) -> list[str]:
    """What stands before a `#` in each line."""
    lines = (line.partition("#")[0].strip() for line in read_lines(file))
    return [line for line in lines if line]

"""`preview`: what a schedule means and when it fires, before a job uses it. Needs no server."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
import typer
from rich.markup import escape

from duetime.cli.options import Json
from duetime.cli.output import clear_errors, out, say
from duetime.cli.tables import columns_of, print_list
from duetime.clock import SystemClock
from duetime.model.schedule import check_moment
from duetime.sdk.preview import FEW
from duetime.sdk.preview import preview as coming

Text = Annotated[
    str,
    typer.Argument(
        metavar="SCHEDULE",
        help="A cron line, a recurrence rule, an interval, a time, or words: [bold]'every weekday at 9am'[/].",
    ),
]
DayMatch = Annotated[
    Literal["either", "both"] | None,
    typer.Option("--day-match", help="Whether a day must match either or both day fields of a cron line."),
]
Zone = Annotated[str | None, typer.Option("--tz", help="The time zone of the schedule, such as Europe/Berlin.")]
From = Annotated[str | None, typer.Option("--from", help="The moment to start from (RFC 3339). Default: now.")]
Count = Annotated[int, typer.Option("--count", "-n", help="How many fires to show.")]


def preview(
    text: Text, tz: Zone = None, day_match: DayMatch = None, start: From = None, count: Count = FEW, json: Json = False
) -> None:
    """Show what a schedule means and its next fires, with the effects of clock changes."""
    with clear_errors(json=json):
        moment = SystemClock().now() if start is None else check_moment(start, "from")
        found = coming(text, tz=tz, day_match=day_match, start=moment, count=count)
        if json:
            say("", json=True, **msgspec.structs.asdict(found))
            return
        exact = found.exact if found.exact == found.kind else f"{found.kind} {found.exact}"
        out.print(f"[bold]{escape(found.sentence)}[/]\n[dim]{escape(exact)}[/]", soft_wrap=True)
        if found.fires:
            print_list(found.fires, _COLUMNS, empty="")
        else:
            out.print(f"[yellow]It does not fire: {escape(found.reason or '')}.[/]", soft_wrap=True)


def _shown(moment: datetime, day: str = "") -> str:
    timespec = "milliseconds" if moment.microsecond else "seconds"
    return f"{moment.strftime(day)}{moment.isoformat(' ', timespec).replace('+00:00', 'Z')}"


_COLUMNS = columns_of(
    "local UTC note", {"local": lambda fire: _shown(fire.local, "%a "), "UTC": lambda fire: _shown(fire.utc)}
)

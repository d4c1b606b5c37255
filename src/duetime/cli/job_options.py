"""What commands say about a job: options that several of them share, and how they are read."""

from datetime import date
from typing import Annotated, Any, Literal

import msgspec
import typer

from duetime.errors import InvalidInput

Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME=VALUE…", help="Arguments: [bold]to=you[/] is text, [bold]count:=3[/] is JSON."),
]
Args = Annotated[str | None, typer.Option("--args", help="All arguments as one JSON object.")]
RunAt = Annotated[str | None, typer.Option("--at", help="When, such as 2027-01-31T09:00:00Z.")]
RunIn = Annotated[str | None, typer.Option("--in", help="After how long, such as 10m.")]
Zone = Annotated[str | None, typer.Option("--tz", help="Whose clock it goes by, such as Europe/Berlin.")]
DayMatch = Annotated[
    Literal["either", "both"] | None,
    typer.Option("--day-match", help="Whether a day matches one of a cron line's two fields of days, or both."),
]
StartAt = Annotated[str | None, typer.Option("--from", help="No run before this moment.")]
EndAt = Annotated[str | None, typer.Option("--until", help="No run after this moment.")]
NotOn = Annotated[
    list[str] | None,
    typer.Option("--not-on", help="Leave out a date, a day of the week (SUN) or a calendar; may be repeated."),
]
Queue = Annotated[str | None, typer.Option("--queue", help="The queue it waits in.")]
Priority = Annotated[str | None, typer.Option("--priority", help="HIGH, MEDIUM or LOW.")]
Retries = Annotated[int | None, typer.Option("--retries", help="Attempts after the first one.")]
Timeout = Annotated[str | None, typer.Option("--timeout", help="How long an attempt may take, such as 30s.")]
JobName = Annotated[str | None, typer.Option("--name", help="A name for people.")]
Owner = Annotated[str | None, typer.Option("--owner", help="The user that it belongs to.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="A tag; may be repeated.")]
MisfireMode = Annotated[str | None, typer.Option("--misfire", help="Of missed ones: latest, skip or all.")]
Overlap = Annotated[
    str | None, typer.Option("--overlap", help="When the last is not over: allow, skip, queue or replace.")
]
Jitter = Annotated[str | None, typer.Option("--jitter", help="Move each fire back by up to this.")]
MaxRuns = Annotated[int | None, typer.Option("--max-runs", help="End after so many runs.")]
ConcurrencyKey = Annotated[
    str | None, typer.Option("--concurrency-key", help="Of runs with this key, at most --concurrency run at once.")
]
Concurrency = Annotated[
    int | None, typer.Option("--concurrency", help="How many of its key run at once; 1 if not given.")
]
RateKey = Annotated[str | None, typer.Option("--rate-key", help="Of runs with this key, at most --rate start.")]
Rate = Annotated[str | None, typer.Option("--rate", help="How many of its key start, such as 100/m.")]
WarnAfter = Annotated[str | None, typer.Option("--warn-after", help="Tell of a run that takes longer; it goes on.")]

_WEEKDAYS = frozenset({"MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"})


def read_arguments(pairs: list[str] | None, args: str | None) -> dict[str, Any] | None:
    found = {} if args is None else check_object(read_json(args, "args"), "args", """such as '{"to": "you"}'""")
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip(":"):
            raise InvalidInput(f"{pair!r} is not an argument", field="arguments", remedy="name=text or name:=json")
        found[name.removesuffix(":")] = read_json(value, name[:-1]) if name.endswith(":") else value
    return found or None


def read_json(text: str, field: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"is not JSON: {error}", field=field) from None


def check_object(value: object, field: str, remedy: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput("is not a JSON object", field=field, remedy=remedy)
    return value


def read_days(given: list[str] | None) -> dict[str, list[str]] | None:
    """The days to leave out, told apart: what is neither a date nor a day of the week is a calendar."""
    days: dict[str, list[str]] = {}
    for day in given or ():
        days.setdefault(_kind(day), []).append(day)
    return days or None


def _kind(day: str) -> str:
    if day.upper() in _WEEKDAYS:
        return "weekdays"
    try:
        date.fromisoformat(day)
    except ValueError:
        return "calendars"
    return "dates"

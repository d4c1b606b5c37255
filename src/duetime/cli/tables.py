"""How commands show objects and lists. Every list goes through `print_list`, so all of them follow the same rules:

- one row per object, the id or name first, headings from the fields
- text: times in the machine's zone with their offset, whole numbers grouped and right-aligned, states in colour, long
  cells shortened; rows keep their full width even on a narrow terminal, because half an id is useless
- `--json`: the objects, one per line, with all fields
- `--csv`: the columns of the table, in full, with times in UTC
- an empty list prints no row, and says on standard error what to do next
"""

import csv
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import msgspec
from rich.markup import escape
from rich.table import Table

from duetime.cli.output import err, out, print_json
from duetime.text.visible import visible, visible_json, visible_lines

Form = Literal["text", "json", "csv"]

_WIDE = 1000
_LONGEST = 60
_GROUPS = ("limits", "removed")
"""Objects of many numbers, of which each has its own line."""
_STATES = ("status", "state", "kind")
_COLOURS = {
    "SUCCEEDED": "green",
    "ACTIVE": "green",
    "RUNNING": "cyan",
    "STARTED": "cyan",
    "IN_STREAM": "cyan",
    "RETRYING": "yellow",
    "SNOOZED": "yellow",
    "PAUSED": "yellow",
    "SUSPENDED": "yellow",
    "BLOCKED": "yellow",
    "SLOW": "yellow",
    "FAILED": "red",
    "LOST": "red",
    "NO_WORKER": "red",
    "CANCELLED": "dim",
    "SKIPPED": "dim",
    "ENDED": "dim",
    "DELETED": "dim",
}


class Column(NamedTuple):
    heading: str
    value: Callable[[Any], object]


def columns_of(columns: str, computed: Mapping[str, Callable[[Any], object]]) -> list[Column]:
    """`columns` are attributes, or `heading=attribute` where these differ, or names of `computed` values."""
    found = []
    for column in columns.split():
        heading, _, attribute = column.partition("=")
        found.append(Column(heading, computed.get(heading) or attrgetter(attribute or heading)))
    return found


def print_list(items: Iterable[Any], columns: Sequence[Column], *, form: Form = "text", empty: str) -> None:
    """`empty`: what to do next if there is nothing to show."""
    match form:
        case "json":
            for item in items:
                print_json(item)
        case "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow([column.heading for column in columns])
            writer.writerows([visible(_exact(column.value(item))) for column in columns] for item in items)
            sys.stdout.flush()
        case "text":
            rows = [[column.value(item) for column in columns] for item in items]
            if rows:
                _print_rows(rows, columns)
            else:
                err.print(f"[dim]{escape(empty)}[/]", soft_wrap=True)


def _print_rows(rows: Sequence[Sequence[object]], columns: Sequence[Column]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for index, column in enumerate(columns):
        counted = all(row[index] is None or _is_number(row[index]) for row in rows)
        table.add_column(column.heading.replace("_", " ").strip(), no_wrap=True, justify="right" if counted else "left")
    for row in rows:
        table.add_row(*(_cell(value, column.heading) for value, column in zip(row, columns, strict=True)))
    out.width = max(out.width, _WIDE)
    out.print(table)


def print_fields(value: msgspec.Struct) -> None:
    """One object, field by field."""
    print_pairs(msgspec.to_builtins(value, builtin_types=(datetime,)))


def print_pairs(pairs: Mapping[str, object]) -> None:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in pairs.items():
        title = name.replace("_", " ")
        if name in _GROUPS and isinstance(value, Mapping):
            for part, each in value.items():
                if each is not None:
                    table.add_row(f"[dim]{_cell(f'{title}.{part}', '')}[/]", _cell(each, part))
        elif value not in (None, "", [], (), {}):
            text = shown(value)
            table.add_row(f"[dim]{escape(title)}[/]", state(text) if name in _STATES else escape(text))
    out.print(table)


def state(text: str) -> str:
    """A state in its colour, in rich's markup."""
    colour = _COLOURS.get(text.upper())
    return escape(text) if colour is None else f"[{colour}]{escape(text)}[/]"


def shown(value: object) -> str:
    """A value for people."""
    match value:
        case None:
            return ""
        case datetime():
            # With its offset: schedules in the same table have their own time zones.
            return value.astimezone().isoformat(" ", "seconds").replace("+00:00", "Z")
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case str():
            return str(value)
        case list() | tuple() if all(isinstance(each, str) for each in value):
            return ", ".join(value)
        case Sequence() | Mapping():
            return visible_json(value)
        case _:
            return str(getattr(value, "value", value))


def seconds(value: float) -> str:
    """A duration: milliseconds below a second, then seconds, minutes, hours."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 120:
        return f"{value:.1f} s"
    whole = round(value)
    return f"{whole // 60} m {whole % 60} s" if whole < 7200 else f"{whole // 3600} h {whole % 3600 // 60} m"


def _exact(value: object) -> str:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case _:
            return shown(value)


def _cell(value: object, heading: str) -> str:
    text = f"{value:,}" if type(value) is int else shown(value)
    line = " ".join(visible_lines(text).split())
    short = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
    return state(short) if heading in _STATES else escape(short)


def _is_number(value: object) -> bool:
    return type(value) in (int, float)

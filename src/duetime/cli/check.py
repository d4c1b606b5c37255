"""`check`: verifies the installation. For people, containers and CI."""

import asyncio
from datetime import timedelta
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from duetime.cli.app_loader import load_app
from duetime.cli.options import MaybeAppName
from duetime.cli.output import out, say
from duetime.cli.settings_commands import DATABASE, settings_command
from duetime.duration import format_duration
from duetime.settings import Settings


@settings_command(DATABASE)
def check(
    settings: Settings,
    app: MaybeAppName = None,
    show_settings: bool = typer.Option(False, "--settings", help="Show every setting and its value."),
    *,
    json: bool,
) -> None:
    """Check the settings, the database, the schema, and the app if you name one. Exits with 0 when all is well. Changes
    nothing."""
    facts: dict[str, Any] = {} if app is None else {"tasks": sorted(load_app(app, settings).tasks)}
    facts |= asyncio.run(_look(settings))
    values = {name: _shown(value) for name, value in settings.__rich_repr__()} if show_settings else {}
    if json:
        say("", json=True, **facts, **({"settings": values} if show_settings else {}))
        return
    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        table.add_row(f"[green]✓[/] {name.replace('_', ' ')}", escape(str(_shown(value))))
    for name, value in values.items():
        table.add_row(f"  {name}", escape(str(value)))
    out.print(table)


async def _look(settings: Settings) -> dict[str, Any]:
    from duetime.store.inspection import inspect

    found = await inspect(settings)
    facts: dict[str, Any] = {
        "database": "PostgreSQL" if settings.sqlite_file is None else f"SQLite in {settings.sqlite_file}",
        "schema_version": found.schema_version,
        "clock_offset_seconds": round(found.clock_offset, 3) + 0.0,
        "workers": found.workers,
    }
    if found.schema_version is None:
        facts["note"] = "the file does not exist yet: `duetime up` creates it"
    if found.owner is not None:
        facts["in_use_by_process"] = found.owner
    return facts


def _shown(value: Any) -> Any:
    """A value as it is written in settings, and as JSON can represent it."""
    match value:
        case None | int() | float():
            return value
        case timedelta():
            return format_duration(value)
        case list() | tuple():
            return ", ".join(value)
        case _:
            return str(value)

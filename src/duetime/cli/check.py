"""`check`: is everything in place? For people, containers and CI."""

import asyncio
from datetime import timedelta
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from duetime.cli.loading import load_app, load_settings
from duetime.cli.options import Config, DatabaseUrl, DataDir, Json, MaybeAppName
from duetime.cli.output import clear_errors, out, say
from duetime.clock import SystemClock
from duetime.duration import format_duration
from duetime.settings import Settings
from duetime.store.opening import store_for


def check(
    app: MaybeAppName = None,
    config: Config = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    show_settings: bool = typer.Option(False, "--settings", help="Show every setting and its value."),
    json: Json = False,
) -> None:
    """Check settings, database, schema, and the app if you name one. Ends with 0 when all is well."""
    with clear_errors(json=json):
        settings = load_settings(config, database_url=database_url, data_dir=data_dir)
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
    store = store_for(settings)
    await store.open()
    try:
        if store.embedded:
            await store.migrate()
        version = await store.check_schema()
        apart = (await store.now() - SystemClock().now()).total_seconds()
        workers = await store.workers()
    finally:
        await store.close()
    return {
        "database": "PostgreSQL" if settings.sqlite_file is None else f"SQLite in {settings.sqlite_file}",
        "schema_version": version,
        "clock_offset_seconds": round(apart, 3) + 0.0,
        "workers": len(workers),
    }


def _shown(value: Any) -> Any:
    """A value as people write it, and as JSON can hold it."""
    match value:
        case None | int() | float():
            return value
        case timedelta():
            return format_duration(value)
        case list() | tuple():
            return ", ".join(value)
        case _:
            return str(value)

"""`check`: is everything in place? For people, containers and CI."""

import asyncio
from typing import Any

import typer
from rich.table import Table

from duetime.cli.loading import load_app, load_settings
from duetime.cli.options import Config, DatabaseUrl, DataDir, Json, MaybeAppName
from duetime.cli.output import clear_errors, out, say
from duetime.clock import SystemClock
from duetime.settings import Settings, describe
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
        facts: dict[str, Any] = {"settings": "ok"}
        if app is not None:
            facts["tasks"] = sorted(load_app(app, settings).tasks)
        facts |= asyncio.run(_look(settings))
        if show_settings:
            facts["values"] = {item.name: str(getattr(settings, item.name)) for item in describe()}
            facts["values"]["database_url"] = dict(settings.__rich_repr__())["database_url"]
        if json:
            say("", json=True, **facts)
            return
        table = Table(show_header=False, box=None)
        for name, value in facts.items():
            if name != "values":
                table.add_row(f"[green]✓[/] {name}", ", ".join(value) if isinstance(value, list) else str(value))
        for name, value in facts.get("values", {}).items():
            table.add_row(f"  {name}", str(value))
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
        "database": "SQLite" if store.embedded else "PostgreSQL",
        "schema": f"version {version}",
        "clock": f"{apart:+.3f} s from this machine's",
        "workers": str(len(workers)),
    }

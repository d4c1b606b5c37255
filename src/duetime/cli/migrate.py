"""`migrate`: brings a database's schema to this duetime's version."""

import asyncio

from duetime.cli.app_loader import load_settings
from duetime.cli.options import Config, DatabaseUrl, DataDir, Json
from duetime.cli.output import clear_errors, say, set_up_logging
from duetime.settings import Settings


def migrate(
    config: Config = None, database_url: DatabaseUrl = None, data_dir: DataDir = None, json: Json = False
) -> None:
    """Bring the schema up to date. Safe to run twice, and from two places at once.

    While another transaction holds a table that must change, it waits in turns for up to a minute, and names the
    blocker.
    """
    with clear_errors(json=json):
        settings = load_settings(config, database_url=database_url, data_dir=data_dir)
        set_up_logging(settings.log_level, "json" if json else settings.log_format)
        applied, version = asyncio.run(_migrate(settings))
        text = f"applied {', '.join(map(str, applied))}; " if applied else ""
        say(f"{text}the schema is at version {version}", json=json, applied=applied, version=version)


async def _migrate(settings: Settings) -> tuple[list[int], int]:
    from duetime.store.address import store_for

    store = store_for(settings)
    await store.open()
    try:
        return await store.migrate(), await store.check_schema()
    finally:
        await store.close()

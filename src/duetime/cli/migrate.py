"""`migrate`: brings a database's schema to this duetime's version."""

import asyncio

from duetime.cli.output import say, set_up_logging
from duetime.cli.settings_commands import DATABASE, settings_command
from duetime.settings import Settings


@settings_command(DATABASE)
def migrate(settings: Settings, *, json: bool) -> None:
    """Bring the schema up to date. Safe to run twice, and from two places at once.

    While another transaction holds a table that must change, it waits in turns for up to a minute, and names the
    blocker.
    """
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

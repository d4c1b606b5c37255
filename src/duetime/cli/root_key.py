"""`root-key`: makes a key for the platform's operator, straight in the database."""

import asyncio

from rich.markup import escape

from duetime.cli.loading import load_settings
from duetime.cli.options import Config, DatabaseUrl, DataDir, Json
from duetime.cli.output import clear_errors, say
from duetime.model.key_text import KeyText
from duetime.settings import Settings


def root_key(
    config: Config = None, database_url: DatabaseUrl = None, data_dir: DataDir = None, json: Json = False
) -> None:
    """Make a root key, which may do everything in every tenant. It is shown once."""
    with clear_errors(json=json):
        made = asyncio.run(_make(load_settings(config, database_url=database_url, data_dir=data_dir)))
        say(escape(made.text), json=json, key=made.text, hint=made.hint)


async def _make(settings: Settings) -> KeyText:
    from duetime.api.data_folder import make_root_key
    from duetime.store.opening import open_ready, store_for

    store = store_for(settings)
    await open_ready(store)
    try:
        return await make_root_key(store, "made by duetime root-key")
    finally:
        await store.close()

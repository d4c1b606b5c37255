"""`root-key`: creates a key for the platform's operator, directly in the database."""

import asyncio
from datetime import timedelta
from typing import Annotated

import typer
from rich.markup import escape

from duetime.cli.output import say
from duetime.cli.settings_commands import DATABASE, settings_command
from duetime.model.key_text import KeyText
from duetime.settings import Settings


@settings_command(DATABASE)
def root_key(
    settings: Settings,
    expires_in: Annotated[
        str | None, typer.Option("--expires-in", help="After how long the key expires: 30d, 12h. Default: never.")
    ] = None,
    *,
    json: bool,
) -> None:
    """Create a root key, which may do everything in every tenant. It is shown once."""
    from duetime.spec.kinds import read_duration

    lifetime = None if expires_in is None else read_duration(expires_in, "expires_in")
    made = asyncio.run(_make(settings, lifetime))
    say(escape(made.text), json=json, key=made.text, hint=made.hint)


async def _make(settings: Settings, lifetime: timedelta | None) -> KeyText:
    from duetime.api.data_folder import make_root_key
    from duetime.store.address import open_ready, store_for

    store = store_for(settings)
    await open_ready(store)
    try:
        return await make_root_key(store, "made by duetime root-key", lifetime)
    finally:
        await store.close()

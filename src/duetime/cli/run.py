"""`up` and `server`: commands that run until they are stopped."""

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from duetime.cli.app_loader import load_app
from duetime.cli.options import MaybeAppName, Reload
from duetime.cli.output import is_terminal, say, set_up_logging
from duetime.cli.reloading import run_reloading
from duetime.cli.settings_commands import DATABASE, EXECUTORS, LOGGING, SERVER, settings_command
from duetime.errors import InvalidInput
from duetime.settings import Settings
from duetime.settings.kinds import without_password

if TYPE_CHECKING:
    from duetime.api.http_server import HttpServer
    from duetime.store.protocol.store import Store

_OBJECTS_BETWEEN_COLLECTIONS = 10_000
_EXIT_TIMEOUT = 2.0
"""Seconds for remaining threads and tasks to end, once everything has stopped."""


@settings_command(DATABASE, EXECUTORS, SERVER, LOGGING, private=True)
def up(settings: Settings, app: MaybeAppName = None, reload: Reload = False, *, json: bool) -> None:
    """Run everything in one process, on an embedded SQLite file.

    This runs the HTTP API, scanner, reaper, pruner, and a worker for your tasks. The schema is created and updated
    automatically. Ctrl-C stops gracefully: running tasks may finish, nothing is lost.
    """
    if reload:
        run_reloading(app, json=json)
        return
    from duetime.api.data_folder import announce_server, ensure_admin_key, forget_server, with_encryption_key
    from duetime.cli.ticker import Ticker
    from duetime.client.server_address import ADMIN_KEY
    from duetime.node.assembly import Node

    start_logging(settings, json=json)
    loaded = None if app is None else load_app(app, settings)
    node = Node(
        with_encryption_key(settings),
        app=loaded,
        serve=True,
        observe=Ticker(json=json),
        migrate=True,
        targets=settings.targets == "on",
        forget_address=lambda: forget_server(settings.data_dir),
    )

    async def ready(store: "Store", server: "HttpServer | None") -> None:
        assert server is not None
        key = await ensure_admin_key(store, settings.data_dir)
        announce_server(settings.data_dir, server.url)
        tasks = [] if loaded is None else sorted(loaded.tasks)
        say(
            f"[bold]duetime is up[/] on {escape(database_of(settings))}, with "
            f"{len(tasks)} tasks{': ' + ', '.join(tasks) if tasks else ''}. Ctrl-C stops it.",
            json=json,
            event="up",
            database=database_of(settings),
            tasks=tasks,
            url=server.url,
        )
        if not json:
            say(f"API on {server.url}, with the key in {escape(str(settings.data_dir / ADMIN_KEY))}", json=False)
            say(await _login_line(store, server, key.hash), json=False)

    run_until_stopped(node.run(ready), json=json)
    if settings.sqlite_file is None:
        forget_server(settings.data_dir)


async def _login_line(store: "Store", server: "HttpServer", key_hash: bytes) -> str:
    """How a browser logs in. The link is as powerful as the root key, so it is printed only on a terminal: redirected
    output is a log that others may read."""
    key = await store.access.key_by_hash(key_hash) if is_terminal(sys.stdout) else None
    link = None if key is None else await server.login_link(key.id)
    if link is None:
        return "Dashboard: duetime login-link prints a link that works once"
    return f"Dashboard: {link} (works once)"


@settings_command(DATABASE, SERVER, LOGGING, private=True)
def server(settings: Settings, *, json: bool) -> None:
    """Run the HTTP API and the loops of one node (scanner, reaper, pruner) on PostgreSQL. Start as many as you like."""
    from duetime.node.assembly import Node

    start_logging(settings, json=json)
    if settings.database_url is None and not settings.has_encryption:
        raise InvalidInput(
            f"no database is given, and the file {settings.sqlite_file} is for `duetime up`",
            field="database_url",
            remedy="set DUETIME_DATABASE_URL to a PostgreSQL database, or run duetime up MODULE:APP",
        )
    node = Node(settings, serve=True, targets=settings.targets == "on")
    where = database_of(settings)

    async def ready(_: "Store", server: "HttpServer | None") -> None:
        assert server is not None
        say(f"serving {escape(where)} on {server.url}", json=json, event="up", database=where, url=server.url)

    run_until_stopped(node.run(ready), json=json)


def run_until_stopped(running: Coroutine[Any, Any, None], *, json: bool) -> None:
    import uvloop

    collect_seldom()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(running)
        say("stopped; all jobs are stored", json=json, event="stopped")
        # The event loop and the interpreter wait for every task and thread, and some never end. Their runs were handed
        # back by now, so nothing is lost by exiting without them.
        leaving = threading.Timer(_EXIT_TIMEOUT, os._exit, (0,))
        leaving.daemon = True
        leaving.start()


def collect_seldom() -> None:
    """Collect garbage less often, and never among the objects from the start: a worker creates many objects and hardly
    any cycles, and collection took a fifteenth of its time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])


def start_logging(settings: Settings, *, json: bool) -> None:
    set_up_logging(settings.log_level, "json" if json else settings.log_format)


def database_of(settings: Settings) -> str:
    if settings.sqlite_file is not None:
        return str(settings.sqlite_file)
    return without_password(settings.database_url)

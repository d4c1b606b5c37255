"""`up`, `server` and `worker`: commands that run until they are stopped."""

import asyncio
import os
import threading
from collections.abc import Callable

import uvloop
from rich.markup import escape

from duetime.cli.loading import load_app, load_settings
from duetime.cli.options import (
    AppName,
    Config,
    DatabaseUrl,
    DataDir,
    Json,
    LogLevel,
    MaybeAppName,
    Processes,
    Queues,
    Slots,
    Threads,
)
from duetime.cli.output import clear_errors, say, set_up_logging
from duetime.cli.ticker import Ticker
from duetime.errors import InvalidInput
from duetime.setting_kinds import without_password
from duetime.settings import Settings
from duetime.store.protocol import Store
from duetime.wiring import Node

_PATIENCE = 2.0
"""Seconds for what is left to end, once everything has stopped."""


def up(
    app: MaybeAppName = None,
    config: Config = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    slots: Slots = None,
    threads: Threads = None,
    processes: Processes = None,
    log_level: LogLevel = None,
    json: Json = False,
) -> None:
    """Run everything in one process, on an embedded SQLite file.

    Scanner, reaper, pruner, and a worker for your tasks. The schema is made and kept up to date by itself.
    Ctrl-C stops in good order: what runs may finish, nothing is lost.
    """
    with clear_errors(json=json):
        settings = load_settings(
            config,
            database_url=database_url,
            data_dir=data_dir,
            slots=slots,
            threads=threads,
            processes=processes,
            log_level=log_level,
        )
        _log(settings, json=json)
        loaded = None if app is None else load_app(app, settings)
        node = Node(settings, app=loaded, observe=Ticker(json=json), migrate=True)

        def ready(_: Store) -> None:
            tasks = [] if loaded is None else sorted(loaded.tasks)
            say(
                f"[bold]duetime is up[/] on {escape(_where(settings))}, with "
                f"{len(tasks)} tasks{': ' + ', '.join(tasks) if tasks else ''}. Ctrl-C stops it.",
                json=json,
                event="up",
                database=_where(settings),
                tasks=tasks,
            )

        _run(node, ready, json=json)


def server(
    config: Config = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    log_level: LogLevel = None,
    json: Json = False,
) -> None:
    """Run the loops of one node (scanner, reaper, pruner) on PostgreSQL. Start as many as you like."""
    with clear_errors(json=json):
        settings = load_settings(config, database_url=database_url, data_dir=data_dir, log_level=log_level)
        _log(settings, json=json)
        node = Node(settings)
        where = _where(settings)
        _run(node, lambda _: say(f"serving {escape(where)}", json=json, event="up", database=where), json=json)


def worker(
    app: AppName,
    config: Config = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    slots: Slots = None,
    threads: Threads = None,
    processes: Processes = None,
    queue: Queues = None,
    log_level: LogLevel = None,
    json: Json = False,
) -> None:
    """Run the tasks of an app, straight from PostgreSQL.

    On SIGTERM or Ctrl-C it claims no more, lets what runs finish within the grace period, and hands the rest back
    without spending an attempt. A second signal stops at once.
    """
    with clear_errors(json=json):
        settings = load_settings(
            config,
            database_url=database_url,
            data_dir=data_dir,
            slots=slots,
            threads=threads,
            processes=processes,
            queues=tuple(queue) if queue else None,
            log_level=log_level,
        )
        _log(settings, json=json)
        loaded = load_app(app, settings)
        if not loaded.tasks:
            raise InvalidInput(f"{app} has no tasks", field="app", remedy="decorate a function with @app.task")
        # An embedded file belongs to one process, so whoever works on it also moves its jobs.
        node = Node(settings, app=loaded, loops=settings.sqlite_file is not None)
        tasks = sorted(loaded.tasks)
        _run(
            node,
            lambda _: say(
                f"working on {escape(_where(settings))}: {', '.join(tasks)}",
                json=json,
                event="up",
                database=_where(settings),
                tasks=tasks,
            ),
            json=json,
        )


def _run(node: Node, ready: Callable[[Store], None], *, json: bool) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(node.run(ready))
        say("stopped; everything is kept", json=json, event="stopped")
        # The event loop and the interpreter wait for every task and thread, and some never end. Their runs were
        # handed back by now, so nothing is lost by leaving without them.
        leaving = threading.Timer(_PATIENCE, os._exit, (0,))
        leaving.daemon = True
        leaving.start()


def _log(settings: Settings, *, json: bool) -> None:
    set_up_logging(settings.log_level, "json" if json else settings.log_format)


def _where(settings: Settings) -> str:
    if settings.sqlite_file is not None:
        return str(settings.sqlite_file)
    return without_password(settings.database_url)

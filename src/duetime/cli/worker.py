"""`worker`: runs the tasks of an app until it is stopped."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from duetime.cli.app_loader import load_app
from duetime.cli.options import MaybeAppName, Queues, Reload
from duetime.cli.output import say
from duetime.cli.reloading import run_reloading
from duetime.cli.run import database_of, run_until_stopped, start_logging
from duetime.cli.settings_commands import CLIENT, DATABASE, EXECUTORS, LOGGING, settings_command
from duetime.errors import InvalidInput
from duetime.settings import Settings
from duetime.settings.kinds import without_password

if TYPE_CHECKING:
    from duetime.api.http_server import HttpServer
    from duetime.sdk.app import App
    from duetime.store.protocol.store import Store

_NO_TASKS = "decorate a function with @app.task; if it is in another module, import that module after the app is made"


@settings_command(DATABASE, EXECUTORS, {"queues": Queues}, CLIENT, LOGGING, private=True)
def worker(
    settings: Settings,
    app: MaybeAppName = None,
    targets: Annotated[
        bool, typer.Option("--targets", help="Execute the targets of jobs (calls and commands), with an app or alone.")
    ] = False,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Work on the SQLite file in --data-dir, and run its scheduler.")
    ] = False,
    reload: Reload = False,
    *,
    json: bool,
) -> None:
    """Run the tasks of an app, directly from PostgreSQL, over HTTP with --url and a worker key, or alone on an SQLite
    file with --embedded.

    On SIGTERM or Ctrl-C it claims no more, lets running tasks finish within the grace period, and hands the rest back
    without spending an attempt. A second signal stops at once.
    """
    if reload:
        _check_address(settings, embedded=embedded)
        run_reloading(app, json=json)
        return
    from duetime.api.data_folder import with_encryption_key
    from duetime.node.assembly import Node

    start_logging(settings, json=json)
    if app is None and not targets:
        raise InvalidInput("is required", field="app", remedy="give module:app or --targets")
    loaded = None if app is None else load_app(app, settings)
    if loaded is not None and not loaded.tasks:
        raise InvalidInput(f"{app} has no tasks", field="app", remedy=_NO_TASKS)
    _check_address(settings, embedded=embedded)
    tasks = [*([] if loaded is None else sorted(loaded.tasks)), *(["targets"] if targets else [])]
    if settings.url is not None:
        if loaded is None or targets:
            raise InvalidInput(
                "targets need direct access to the database, which holds the secrets",
                field="targets",
                remedy="remove --url",
            )
        _work_remotely(settings, loaded, json=json)
        return
    # An embedded file belongs to one process, so its worker also runs the engine's loops.
    on_file = settings.sqlite_file is not None
    known = with_encryption_key(settings) if on_file else settings
    node = Node(known, app=loaded, loops=on_file, targets=targets)

    async def ready(_: "Store", __: "HttpServer | None") -> None:
        say(
            f"working on {escape(database_of(settings))}: {', '.join(tasks)}",
            json=json,
            event="up",
            database=database_of(settings),
            tasks=tasks,
        )

    run_until_stopped(node.run(ready), json=json)


def _check_address(settings: Settings, *, embedded: bool) -> None:
    """A worker that is meant to work for others must not start on a new, empty file because its address is missing."""
    address = settings.url or settings.database_url
    if embedded and address is not None:
        raise InvalidInput(
            f"the address {without_password(address)} is given too", field="embedded", remedy="remove one of them"
        )
    if not embedded and address is None:
        raise InvalidInput(
            f"no database or server is given; a separate worker cannot share the SQLite file {settings.sqlite_file}",
            field="database_url",
            remedy="set DUETIME_DATABASE_URL or DUETIME_URL, or give --embedded to work on that file",
        )


def _work_remotely(settings: Settings, app: "App", *, json: bool) -> None:
    from duetime.node.assembly import RemoteNode

    tasks = sorted(app.tasks)

    def ready() -> None:
        server = without_password(settings.url)
        say(f"working for {escape(server)}: {', '.join(tasks)}", json=json, event="up", url=server, tasks=tasks)

    run_until_stopped(RemoteNode(settings, app).run(ready), json=json)

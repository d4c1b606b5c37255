"""Flask: tasks that run in the application's context, settings from its configuration, and `flask duetime …`.

jobs = duetime.App()
extension = Duetime(jobs)

def create_app():
    app = Flask(__name__)
    extension.init_app(app)
    return app
"""

from collections.abc import Generator
from typing import Any

import click

from duetime.embedded.app import App
from duetime.integrations.hosting import configure, run_command

try:
    from flask import Flask
except ImportError as error:  # pragma: no cover
    raise ImportError("duetime.integrations.flask needs Flask: pip install duetime[flask]") from error

jobs: App | None = None
"""The app of the last Flask application that was initialised: the one that `flask duetime worker` runs."""


class Duetime:
    def __init__(self, app: App, flask: Flask | None = None) -> None:
        self._app = app
        self._flask: Flask | None = None
        app.middleware(self._in_context)
        if flask is not None:
            self.init_app(flask)

    def init_app(self, flask: Flask) -> None:
        """Use the settings `DUETIME_…` of this application's configuration, run tasks in its context, and add the
        command `flask duetime`."""
        global jobs
        jobs = self._app
        self._flask = flask
        prefix = "DUETIME_"
        given = {name.removeprefix(prefix): value for name, value in flask.config.items() if name.startswith(prefix)}
        if given:
            configure(self._app, given, "DUETIME_{}")
        flask.extensions["duetime"] = self._app

        @flask.cli.command(
            "duetime",
            help="Run duetime's commands with this application's tasks: worker, up, migrate, …",
            add_help_option=False,
            context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
        )
        @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
        def command(arguments: tuple[str, ...]) -> None:
            run_command(arguments, "duetime.integrations.flask:jobs", given, "flask duetime")

    def _in_context(self, _context: Any) -> Generator[None, Any, None]:
        if self._flask is None:
            yield
            return
        with self._flask.app_context():
            yield

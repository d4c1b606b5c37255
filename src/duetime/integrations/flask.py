"""Flask: tasks that run in the application's context, settings from its configuration, and `flask duetime …`.

jobs = duetime.App()
extension = Duetime(jobs)

def create_app():
    app = Flask(__name__)
    extension.init_app(app)
    return app

A child process of a task with `process=True` makes a Flask application of its own, as `flask --app` does.
"""

from collections.abc import Generator
from typing import Any

import click

from duetime.embedded.app import App
from duetime.errors import SettingsError
from duetime.integrations.hosting import configure, run_command

try:
    from flask import Flask
    from flask.cli import NoAppException, ScriptInfo, locate_app
except ImportError as error:  # pragma: no cover
    raise ImportError("duetime.integrations.flask needs Flask: pip install duetime[flask]") from error

jobs: App | None = None
"""The app of the last Flask application that was initialised: the one that `flask duetime worker` runs."""


class Duetime:
    def __init__(self, app: App, flask: Flask | None = None, *, flask_app: str | None = None) -> None:
        """`flask_app` is what `flask --app` takes, such as `shop:create_app('production')`: the processes of tasks with
        `process=True` make their application with it. By default they look for `app` or `create_app` in the module that
        the application is named after."""
        self._app = app
        self._context = _ApplicationContext(flask_app)
        app.middleware(self._context.around)
        if flask is not None:
            self.init_app(flask)

    def init_app(self, flask: Flask) -> None:
        """Use the settings `DUETIME_…` of this application's configuration, run tasks in its context, and add the
        command `flask duetime`."""
        global jobs
        jobs = self._app
        self._context.flask = flask
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
        @click.pass_context
        def command(context: click.Context, arguments: tuple[str, ...]) -> None:
            named = context.find_object(ScriptInfo)
            if self._context.flask_app is None and named is not None:
                self._context.flask_app = named.app_import_path
            run_command(arguments, "duetime.integrations.flask:jobs", given, "flask duetime", [flask.root_path])


class _ApplicationContext:
    """The middleware. A child process gets the name of the application, and makes its own."""

    def __init__(self, flask_app: str | None, flask: Flask | None = None) -> None:
        self.flask_app = flask_app
        self.flask = flask

    def around(self, _context: Any) -> Generator[None, Any, None]:
        if self.flask is None:
            yield
            return
        with self.flask.app_context():
            yield

    def __reduce__(self) -> tuple[Any, ...]:
        return _in_child, (self.flask_app, None if self.flask is None else self.flask.import_name)


def _in_child(flask_app: str | None, import_name: str | None) -> _ApplicationContext:
    if import_name is None:
        return _ApplicationContext(None)
    try:
        flask = locate_app(import_name, None) if flask_app is None else ScriptInfo(flask_app).load_app()
        return _ApplicationContext(flask_app, flask)
    except NoAppException as error:
        raise SettingsError(
            f"this process cannot make the Flask application {flask_app or import_name!r}: {error.message}",
            field="flask_app",
            remedy="name it as for `flask --app`: Duetime(jobs, flask_app='shop:create_app()')",
        ) from error

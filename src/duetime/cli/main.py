"""The `duetime` command.

Commands import what they use inside their functions, so that help and short commands do not load servers and stores.
Of the modules with commands, only that of the given command is loaded: all of them take longer than most commands.
"""

import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

import typer

from duetime.text.visible import visible_lines
from duetime.version import __version__

COMMANDS = {
    "up": ("run", "up"),
    "server": ("run", "server"),
    "worker": ("worker", "worker"),
    "migrate": ("migrate", "migrate"),
    "root-key": ("root_key", "root_key"),
    "doctor": ("doctor", "doctor"),
    "preview": ("preview", "preview"),
    "submit": ("submit", "submit"),
    "schedule": ("submit", "schedule"),
    "jobs": ("jobs", "application"),
    "runs": ("runs", "runs"),
    "dead": ("runs", "dead"),
    "bulk": ("bulk_actions", "application"),
    "archive": ("archive", "archive"),
    "calendars": ("calendars", "application"),
    "graphs": ("graphs", "graphs"),
    "secrets": ("secrets", "application"),
    "queues": ("service", "queues"),
    "breakers": ("service", "breakers"),
    "sources": ("sources", "application"),
    "subscriptions": ("notifications", "subscriptions"),
    "alerts": ("notifications", "alerts"),
    "checkins": ("checkins", "application"),
    "workers": ("service", "workers"),
    "trends": ("service", "trends"),
    "tail": ("tail", "tail"),
    "import-crontab": ("crontab", "import_crontab"),
    "import-beat": ("import_commands", "import_beat"),
    "import-apscheduler": ("import_commands", "import_apscheduler"),
    "tenants": ("admin", "tenants"),
    "keys": ("admin", "keys"),
    "issuers": ("issuers", "application"),
    "sessions": ("sessions", "sessions"),
    "login-link": ("sessions", "login_link"),
    "login": ("login", "login"),
    "logout": ("login", "logout"),
    "whoami": ("login", "whoami"),
    "encryption": ("encryption", "application"),
    "export": ("export", "export"),
    "usage": ("usage", "usage"),
    "audit": ("admin", "audit"),
}
"""By its name, the module and the function of a command, or the application of a group of commands; in the order of
the help."""

application: typer.Typer
"""All commands. It is made when it is first asked for."""


def __getattr__(name: str) -> typer.Typer:
    if name != "application":
        raise AttributeError(name)
    found = globals()["application"] = make_application(*COMMANDS)
    return found


def make_application(*names: str) -> typer.Typer:
    """The command with these subcommands."""
    made = typer.Typer(
        name="duetime",
        help="A durable job scheduler: runs every job on time, retries failures, survives the death of any process.",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        add_completion=True,
    )
    made.callback()(_options)
    for name in names:
        module, attribute = COMMANDS[name]
        found = getattr(import_module(f"duetime.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            made.add_typer(found, name=name)
        else:
            made.command(name)(found)
    return made


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"duetime {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    pass


def application_for(arguments: Sequence[str]) -> typer.Typer:
    """The command with as few subcommands as these arguments need."""
    first = arguments[0] if arguments else ""
    return make_application(*([first] if first in COMMANDS else [] if first == "--version" else COMMANDS))


def main() -> None:
    try:
        application_for(sys.argv[1:])()
    except Exception:
        # Like Python's own traceback, but with untrusted text made safe for the terminal.
        sys.stderr.write(visible_lines(traceback.format_exc()))
        sys.exit(1)

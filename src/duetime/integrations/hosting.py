"""What the web frameworks' integrations share: settings from the framework's configuration, and duetime's commands."""

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from duetime.embedded.app import App
from duetime.errors import SettingsError
from duetime.settings import Settings, load

_INSTALLED = {"site-packages", "dist-packages"}
_WITH_APP = ("up", "worker", "doctor")
"""Commands that take an app."""


def configure(app: App, given: Mapping[str, Any], source: str) -> None:
    """Use these settings, which take precedence over variables and the settings file. `source` says where they are, for
    errors: `DUETIME[{}]`."""
    known = [field.name for field in msgspec.structs.fields(Settings)]
    named = {name.lower(): value for name, value in given.items()}
    for name in given:
        if name.lower() not in known:
            close = difflib.get_close_matches(name.lower(), known, n=1)
            remedy = f"did you mean {close[0].upper()}?" if close else "docs/settings.md lists all settings"
            raise SettingsError(f"{source.format(name)} is not a setting", remedy=remedy)
    app.configure(load(None, os.environ, named))


def run_command(
    arguments: Sequence[str], app_name: str, given: Mapping[str, Any], program: str, folders: Iterable[str]
) -> None:
    """Run the `duetime` command with these settings. Commands that take an app get the framework's. `--reload` watches
    `folders` beside the working folder, unless their packages are installed. It ends the process."""
    from duetime.cli.main import application_for
    from duetime.cli.reloading import hosted_folders

    os.environ |= {f"DUETIME_{name.upper()}": _text(value) for name, value in given.items() if value is not None}
    if arguments and arguments[0] in _WITH_APP:
        arguments = [arguments[0], app_name, *arguments[1:]]
    hosted_folders.set([Path(each) for each in folders if not _INSTALLED.intersection(Path(each).parts)])
    application_for(arguments)(args=list(arguments), prog_name=program)


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)

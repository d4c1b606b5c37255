"""Finding what a command works on: settings, and an app named `module:attribute`."""

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duetime.errors import InvalidInput
from duetime.settings import Settings, load

if TYPE_CHECKING:
    from duetime.app import App


def load_settings(config: Path | None, **flags: Any) -> Settings:
    return load(config, os.environ, flags)


def load_app(name: str, settings: Settings) -> "App":
    """Import `module:app`; the working folder comes first, as it does for `python -m`."""
    from duetime.app import App

    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise InvalidInput(
            f"{name!r} does not name an app", field="app", remedy="module:attribute, such as shop.jobs:app"
        )
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there: something that it imports is not
        raise InvalidInput(
            f"there is no module {module_name!r} here", field="app", remedy="run it from the folder that holds it"
        ) from None
    found = getattr(module, attribute, None)
    if found is None:
        apps = [key for key, value in vars(module).items() if isinstance(value, App)]
        remedy = f"it has: {', '.join(apps)}" if apps else "it has no App at all"
        raise InvalidInput(f"{module_name} has no {attribute!r}", field="app", remedy=remedy)
    if not isinstance(found, App):
        raise InvalidInput(f"{name} is {type(found).__name__}, not a duetime.App", field="app")
    found.configure(settings)
    return found

"""Loads what a command works on: settings, and an app named `module:attribute`."""

import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from duetime.cli.output import err
from duetime.errors import DuetimeError, InvalidInput
from duetime.settings import Settings, load

if TYPE_CHECKING:
    from duetime.sdk.app import App


def load_settings(config: Path | None, **flags: Any) -> Settings:
    return load(config, os.environ, flags)


def load_app(name: str, settings: Settings) -> "App":
    """Import `module:app`; the working folder comes first, as it does for `python -m`."""
    from duetime.sdk.app import App

    found = load_object(name, "shop.jobs:app")
    if not isinstance(found, App):
        problem = f"{name} is {type(found).__name__}, not a duetime.App"
        raise InvalidInput(problem, field="app", remedy=_instead_of(found, name.partition(":")[0]))
    found.configure(settings)
    return found


def _instead_of(found: object, module_name: str) -> str:
    apps = _apps_in(sys.modules[module_name])
    if apps:
        return f"give {' or '.join(f'{module_name}:{app}' for app in apps)}"
    if type(found).__name__ == "Celery":
        return f"create one, jobs = duetime.App(), and give {module_name}:jobs: see docs/from-celery.md"
    return f"{module_name} contains no App: create one, app = duetime.App()"


def load_object(name: str, example: str) -> Any:
    """Import `module:attribute`."""
    module_name, _, attribute = name.partition(":")
    if "/" in module_name or module_name.startswith(".") or module_name.endswith(".py"):
        raise _not_a_path(module_name, attribute or example.partition(":")[2])
    if not module_name or not attribute:
        raise InvalidInput(
            f"{name!r} is not the name of an app", field="app", remedy=f"module:attribute, such as {example}"
        )
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise _not_imported(module_name, error) from None
    found = getattr(module, attribute, None)
    if found is None:
        apps = _apps_in(module)
        remedy = f"it has: {', '.join(apps)}" if apps else "it contains no App"
        raise InvalidInput(f"{module_name} has no {attribute!r}", field="app", remedy=remedy)
    return found


def _apps_in(module: ModuleType) -> list[str]:
    from duetime.sdk.app import App

    return [key for key, value in vars(module).items() if isinstance(value, App)]


def _not_a_path(given: str, attribute: str) -> InvalidInput:
    """The error for the path of a file, with the module's name from the folder in which it can be imported."""
    path = Path(os.path.normpath(given.removesuffix(".py").removesuffix("/__init__")))
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    module = path.name.strip(".") or "shop"
    if path.is_absolute() or ".." in path.parts:
        remedy = f"run the command in the folder {path.parent}, and give {module}:{attribute}"
    else:
        remedy = f"give {'.'.join((*path.parts[:-1], module))}:{attribute}"
    return InvalidInput(f"{given!r} is a path, not the name of a module", field="app", remedy=remedy)


def _not_imported(module_name: str, error: Exception) -> DuetimeError:
    """The error for a failed import. If the module itself is at fault, the traceback is shown first, from the module
    on."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is not None and f"{module_name}.".startswith(f"{missing}."):
        remedy = "run the command in the folder that contains it"
        return InvalidInput(f"no module {module_name!r} found", field="app", remedy=remedy)
    if isinstance(error, DuetimeError) and not isinstance(error, InvalidInput):
        return error  # the module tried to use a database: that error is clear enough
    trace = traceback.TracebackException.from_exception(error)
    frames = [each for each in trace.stack if each.filename not in (__file__, importlib.__file__)]
    frames = [each for each in frames if not each.filename.startswith("<frozen importlib")]
    lines = [*traceback.format_list(frames), *trace.format_exception_only()]
    err.print("".join(lines).rstrip(), markup=False, soft_wrap=True)
    return InvalidInput(f"{module_name} cannot be imported: {type(error).__name__}: {error}", field="app")

"""The pytest plugin: the fixture `jobs`, which runs the app of a test in the harness of `duetime.testing`.

A test that is a plain function gets a `SyncHarness`, an async one a `Harness`. An async test that no other plugin runs
(pytest-asyncio, anyio) is run here. pytest loads this file in every project that has duetime installed, so it imports
the rest of duetime only in a test that uses the fixture.
"""

import asyncio
import importlib
import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from duetime.sdk.app import App
    from duetime.testing import Harness, SyncHarness

_APP = "duetime_app"
_WAYS = f"set {_APP} = module:app in the settings of pytest, or define a fixture {_APP} that returns it"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(_APP, "The app of the fixture `jobs`, as module:app.", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "duetime(start=None, eager=False): the first moment of the clock of `jobs`; run jobs when submitted."
    )


@pytest.fixture
def duetime_app(request: pytest.FixtureRequest) -> "App":
    """The app that `jobs` runs: the one in the setting `duetime_app`, else the only one in the test's module."""
    from duetime.sdk.app import App

    name = request.config.getini(_APP)
    if name:
        module, _, attribute = name.partition(":")
        found = getattr(importlib.import_module(module), attribute or "app", None)
        if not isinstance(found, App):
            raise pytest.UsageError(f"{_APP} = {name}: there is no duetime.App of this name")
        return found
    here = {id(value): value for value in vars(request.module).values() if isinstance(value, App)}
    if len(here) != 1:
        raise pytest.UsageError(f"`jobs` needs one app, and {request.module.__name__} has {len(here)}: {_WAYS}")
    return here.popitem()[1]


@pytest.fixture
def jobs(request: pytest.FixtureRequest, duetime_app: "App") -> Iterator["Harness | SyncHarness"]:
    """The app on an empty store in memory, with a clock that the test moves. See docs/testing.md."""
    from duetime.testing import sync_harness

    marker = request.node.get_closest_marker("duetime")
    options: dict[str, Any] = {} if marker is None else marker.kwargs
    unknown = sorted(options.keys() - {"start", "eager"})
    if unknown or (marker is not None and marker.args):
        raise pytest.UsageError(f"the mark duetime takes start= and eager=, not {', '.join(unknown) or 'positions'}")
    with sync_harness(duetime_app, **options) as found:
        yield found.harness if inspect.iscoroutinefunction(request.function) else found


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test with `jobs` that no plugin for async tests has taken."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    if type(pyfuncitem.funcargs.get("jobs")).__module__ != "duetime.testing":
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names if name in pyfuncitem.funcargs}))
    return True

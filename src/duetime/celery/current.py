"""The app that tasks without an app of their own belong to: the one that was made last."""

from collections.abc import Callable
from datetime import tzinfo
from typing import Any, Protocol

from duetime.errors import InvalidInput
from duetime.sdk.app import App


class Owner(Protocol):
    """A `Celery`, as far as its tasks and results need it."""

    @property
    def jobs(self) -> App: ...

    @property
    def zone(self) -> tzinfo: ...

    def task(self, *function: Callable[..., Any], **options: Any) -> Any: ...

    def signature(self, name: str, *args: Any, **kwargs: Any) -> Any: ...


_last: list[Owner] = []


def make_current(app: Owner) -> None:
    _last[:] = [app]


def current_if_made() -> Owner | None:
    return _last[0] if _last else None


def current() -> Owner:
    if not _last:
        raise no_app("there is no app yet")
    return _last[0]


def no_app(problem: str) -> InvalidInput:
    return InvalidInput(problem, field="app", remedy='import the module with Celery("…", jobs) first')

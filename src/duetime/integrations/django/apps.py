"""The Django app: settings, tasks, and database connections around each attempt.

A child process of a task with `process=True` sets Django up when it loads the middleware, before the module of the task
imports models.
"""

from collections.abc import Generator
from typing import Any

import django
from django.apps import AppConfig
from django.apps import apps as installed
from django.db import close_old_connections
from django.utils.module_loading import autodiscover_modules

from duetime.integrations.django import app
from duetime.integrations.django.project_settings import project_settings
from duetime.integrations.hosting import configure


class DuetimeConfig(AppConfig):  # type: ignore[misc]
    name = "duetime.integrations.django"
    label = "duetime"
    verbose_name = "duetime"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        configure(app, project_settings(), "DUETIME[{!r}]")
        if _connections.around not in app.middlewares:
            app.middlewares.insert(0, _connections.around)  # around those that were added before, which may use them
        autodiscover_modules("tasks")


class _Connections:
    def around(self, _context: Any) -> Generator[None, Any, None]:
        """As around a request: connections that are too old or broken are closed."""
        close_old_connections()
        try:
            yield
        finally:
            close_old_connections()

    def __reduce__(self) -> tuple[Any, ...]:
        return _in_child, ()


_connections = _Connections()
_failed: list[Exception] = []
"""What has prevented the start of Django in this process. Django would only say that it cannot start twice."""


def _in_child() -> _Connections:
    if _failed:
        raise _failed[0]
    if not installed.ready:
        try:
            django.setup()
        except Exception as error:
            _failed.append(error)
            raise
    return _connections

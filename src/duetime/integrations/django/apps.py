"""The Django app: settings, tasks, and database connections around each attempt."""

from collections.abc import Generator
from typing import Any

from django.apps import AppConfig
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
        if not app.middlewares:
            app.middleware(_fresh_connections)
        autodiscover_modules("tasks")


def _fresh_connections(_context: Any) -> Generator[None, Any, None]:
    """As around a request: connections that are too old or broken are closed."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()

"""`manage.py duetime worker`, `up`, `migrate` and all other commands, with the project's app and settings."""

from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError

from duetime.integrations.django.project_settings import project_settings
from duetime.integrations.hosting import run_command


class Command(BaseCommand):  # type: ignore[misc]
    help = "Runs duetime's commands with this project's tasks and settings: worker, up, migrate, …"

    def run_from_argv(self, argv: Sequence[str]) -> None:
        # Its arguments are not Django's.
        folders = [each.path for each in apps.get_app_configs()]
        run_command(argv[2:], "duetime.integrations.django:app", project_settings(), "manage.py duetime", folders)

    def handle(self, *args: Any, **options: Any) -> None:
        raise CommandError("run it as a process of its own: manage.py duetime …")

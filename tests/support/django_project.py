"""A Django project as `startproject` makes it, on SQLite, with an app whose tasks use its models."""

from collections.abc import Mapping
from pathlib import Path

ENVIRON: Mapping[str, str] = {"DJANGO_SETTINGS_MODULE": "shop.settings"}

_FILES = {
    "manage.py": """
import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")

if __name__ == "__main__":
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
""",
    "shop/__init__.py": "",
    "shop/settings.py": """
from pathlib import Path

SECRET_KEY = "for tests"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["orders", "duetime.integrations.django"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": Path(__file__).parents[1] / "db.sqlite3"}}
""",
    "shop/urls.py": "urlpatterns = []\n",
    "orders/__init__.py": "",
    "orders/models.py": """
from django.db import models


class Order(models.Model): ...
""",
    "orders/tasks.py": """
from duetime.integrations.django import app

from .models import Order


@app.task(retries=0)
def confirm() -> int:
    return Order.objects.count()


@app.task(retries=0, process=True)
def count() -> int:
    return Order.objects.count()
""",
    "orders/migrations/__init__.py": "",
    "orders/migrations/0001_initial.py": """
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [migrations.CreateModel("Order", [("id", models.BigAutoField(primary_key=True))])]
""",
}


def write_project(folder: Path, other: Mapping[str, str] | None = None) -> None:
    """`other`: files that differ."""
    for name, text in {**_FILES, **(other or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

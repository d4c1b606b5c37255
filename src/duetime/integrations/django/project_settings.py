"""The settings of duetime in a Django project: `DUETIME`, and by default Django's own database."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from django.conf import settings

from duetime.errors import SettingsError

_OWN = ("DASHBOARD_URL",)
"""Settings of this integration only."""


def project_settings() -> dict[str, Any]:
    """What `DUETIME` sets. Without an address there, jobs are stored in the default database."""
    given = {name: value for name, value in _given().items() if name not in _OWN}
    if not {"DATABASE_URL", "DATA_DIR", "URL"} & given.keys():
        given["DATABASE_URL"] = _address(settings.DATABASES["default"])
    return given


def dashboard_url() -> str | None:
    """`DASHBOARD_URL`, or the address of the server."""
    given = _given()
    found: str | None = given.get("DASHBOARD_URL") or given.get("PUBLIC_URL") or given.get("URL")
    return found


def _given() -> Mapping[str, Any]:
    found: Mapping[str, Any] = getattr(settings, "DUETIME", {})
    return found


def _address(database: Mapping[str, Any]) -> str:
    engine, name = database["ENGINE"], str(database["NAME"])
    if engine.endswith(("sqlite3", "spatialite")):
        return f"sqlite:///{name}"
    if not engine.endswith(("postgresql", "postgis")):
        raise SettingsError(
            f"duetime cannot use the default database, whose engine is {engine}",
            field="database_url",
            remedy="set DUETIME = {'DATABASE_URL': 'postgresql://…'}",
        )
    host, port = str(database.get("HOST") or ""), str(database.get("PORT") or "")
    user, password = quote(database.get("USER") or "", safe=""), quote(database.get("PASSWORD") or "", safe="")
    account = f"{user}:{password}@" if password else f"{user}@" if user else ""
    query = {"host": host} if host.startswith("/") else {}
    if sslmode := database.get("OPTIONS", {}).get("sslmode"):
        query["sslmode"] = sslmode
    place = "" if host.startswith("/") else host or "localhost"
    address = f"postgresql://{account}{place}{':' + port if port else ''}/{quote(name)}"
    return f"{address}?{urlencode(query)}" if query else address

"""Django: one app for the project, whose tasks are in the modules `tasks` of the installed apps.

INSTALLED_APPS = ["duetime.integrations.django", …]

from duetime.integrations.django import app

@app.task
def send_invoice(order: int) -> None: ...
"""

from duetime.embedded.app import App

app = App()
"""The project's app. Django's settings configure it (`DUETIME`)."""

__all__ = ["app"]

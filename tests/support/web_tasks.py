"""The app of a shop whose web processes submit and whose `duetime up` runs."""

import os
from typing import Any

import duetime


def make_app(data_dir: str | None = None) -> "tuple[duetime.App, duetime.Task[..., Any]]":
    app = duetime.App(data_dir=data_dir)

    @app.task(name="note")
    async def note(text: str) -> str:
        return text

    return app, note


app, _ = make_app(os.environ.get("SHOP_DATA"))

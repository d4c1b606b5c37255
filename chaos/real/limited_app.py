"""What the workers of the scenario `limits` run: it takes a moment."""

import asyncio

from duetime import App

app = App()


@app.task(name="limited")
async def limited(seconds: float) -> None:
    await asyncio.sleep(seconds)

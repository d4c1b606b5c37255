"""An app that ticks every second, and has errors that no terminal should stumble over."""

import duetime

app = duetime.App()
ODD = ("[/red]", "[bold", "[link=x]", "\\[", "", "☃")


@app.task
async def tick() -> None: ...


@app.task(retries=0)
async def odd(text: str) -> None:
    raise ValueError(text)


@app.on_start
async def plan() -> None:
    await tick.schedule(every="1s", key="tick")
    await app.submit_many(odd.bind(text=text) for text in ODD)

"""The smallest app: `make up`, or `duetime up examples.hello:app`.

`greet` runs every five seconds; `flaky` fails once and is tried again.
"""

import duetime

app = duetime.App()


@app.task
async def greet(name: str) -> str:
    return f"Hello, {name}!"


@app.task(retry=duetime.RetryPolicy(retries=3, base=1.0))
async def flaky(ctx: duetime.Context) -> str:
    if ctx.attempt == 1:
        raise ConnectionError("the first attempt always fails here; the second will not")
    return f"done at attempt {ctx.attempt}"


@app.on_start
async def plan() -> None:
    # With a key, any number of starts leave one job.
    await app.schedule(greet.bind(name="world"), every="5s", key="greet-world")
    await flaky.submit()

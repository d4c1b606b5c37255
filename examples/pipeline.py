"""A graph of jobs: `duetime up examples.pipeline:app`.

Two sources are fetched at the same time, `merge` waits for both and reads their results, and `clean_up` runs whatever
became of them. `report` is chained: it runs after each run of `merge` that comes from the hourly job.
"""

import duetime

app = duetime.App()


@app.task
async def fetch(source: str) -> int:
    return len(source)


@app.task
async def merge(ctx: duetime.Context) -> int:
    return sum(parent.value for parent in await ctx.parents())


@app.task
async def clean_up() -> None: ...


@app.task
def report(ctx: duetime.SyncContext) -> str:
    (merged,) = ctx.parents()
    return f"merged {merged.value}"


@app.on_start
async def plan() -> None:
    nightly = duetime.GraphPlan("nightly")
    nightly.add("orders", fetch.bind(source="orders"))
    nightly.add("stock", fetch.bind(source="stock"))
    nightly.add("merge", merge, depends_on=["orders", "stock"])
    nightly.add("clean_up", clean_up, depends_on=duetime.Needs(["merge"], on="finished"))
    await app.submit_graph(nightly, idempotency_key="nightly-example")
    merging = await app.schedule(merge, every="30s", key="merge")
    await app.schedule(report, after=merging, key="report")

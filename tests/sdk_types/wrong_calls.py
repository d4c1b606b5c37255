"""Calls that type checkers refuse: `test_types` expects an error on each marked line, and on no other one."""

from datetime import UTC, datetime
from decimal import Decimal

from duetime import Context, GraphPlan
from duetime.testing import Harness
from tests.sdk_types.right_calls import (
    Color,
    Jobs,
    app,
    charge,
    crunch,
    kw,
    paint,
    report,
    returns_any,
    send,
    sync_any,
    tidy,
)


def takes_text(text: str) -> None: ...


async def main(conn: object, harness: Harness) -> None:
    await send.submit(to=3)  # wrong
    await send.submit(tw="x")  # wrong
    await send.submit()  # wrong
    await send.submit("x", "y")  # wrong
    await send.submit("x", 1, 2)  # wrong
    await send.submit(to="x", run_in="10m")  # wrong
    await send.options(run_inn="10m").submit(to="x")  # wrong
    await send.options(run_in=[1]).submit(to="x")  # wrong
    await send.options(priority="URGENT").submit(to="x")  # wrong
    await send.options(key=3).submit(to="x")  # wrong
    await send.options(run_in="10m").submit(to=3)  # wrong
    await send.options(to="x").submit()  # wrong
    await send.options(cron="* * * * *").submit(to="x")  # wrong
    await report.submit("x", datetime.now(UTC))  # wrong
    await report.submit(to="x", day="2026-01-01")  # wrong
    await charge.submit(ctx=None, customer=3, amount=Decimal(1))  # wrong
    await charge.submit(customer="3", amount=Decimal(1))  # wrong
    await charge.submit(customer=3, amount=1.5)  # wrong
    takes_text(await (await send.submit(to="x")).result())  # wrong
    await send.schedule(cron="0 9 * * *")  # wrong
    await app.schedule(send, cron="0 9 * * *")  # wrong
    await app.submit(send)  # wrong
    await app.submit(send.bind(to=3))  # wrong
    await app.submit(send, to="x")  # wrong
    await app.submit_many([{"to": "x"}])  # wrong
    await tidy.schedule(run_in="10m")  # wrong
    await tidy.schedule(overlap="never", every="1h")  # wrong
    GraphPlan().add("a", send)  # wrong
    GraphPlan().add("a", tidy, depends_on=[3])  # wrong
    await paint.submit("red", "fast")  # wrong
    await paint.submit(Color.RED, "medium")  # wrong
    await kw.submit(a="x")  # wrong
    await app.edit("job_x", key="k")  # wrong
    await app.edit("job_x", queue=None)  # wrong
    (await tidy.schedule(every="1h")).result()  # wrong
    send.submit(to="x")  # wrong
    harness.assert_submitted(send.bind(tw="x"))  # wrong
    await crunch.submit([{"a": "x"}])  # wrong
    await send.delay(to="x")  # wrong
    await returns_any.submit(x="s")  # wrong
    await sync_any.submit(x="s")  # wrong, but mypy takes the result Any for an async function's
    await Jobs.stat.submit("s")  # wrong


async def in_a_graph(ctx: Context) -> None:
    takes_text(await ctx.result_of(send))  # wrong
    await ctx.result_of(send, 3)  # wrong
    await ctx.result_of("send")  # wrong


def blocking() -> None:
    takes_text(send.sync.submit(to="x").result())  # wrong
    send.sync.submit(to=3)  # wrong


@app.task(retries="three")  # wrong
async def t1() -> None: ...
@app.task(run_in="10m")  # wrong
async def t2() -> None: ...

"""Calls that type checkers accept: `test_types` runs them through mypy and pyright. Nothing here is executed.

Each line is one call; its types are asserted where they matter.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NamedTuple, TypedDict, assert_type
from uuid import UUID, uuid4

from duetime import App, Call, Context, GraphPlan, HttpTarget, Needs, Receipt, SyncContext, SyncReceipt
from duetime.testing import Harness

app = App()


class Color(Enum):
    RED = "red"


@dataclass
class Order:
    id: int
    at: datetime


class Row(TypedDict):
    a: int


class Point(NamedTuple):
    x: int
    y: int


@app.task
async def send(to: str, copies: int = 1) -> int:
    return copies


@app.task(retries=3, timeout="30s")
async def report(*, to: str, day: datetime) -> str:
    return to


@app.task
def resize(path: str, *, width: int) -> bytes:
    return b""


@app.task(process=True)
def crunch(rows: list[Row]) -> Order:
    return Order(1, datetime.now(UTC))


@app.task
async def charge(ctx: Context, customer: int, amount: Decimal) -> UUID:
    return uuid4()


@app.task
def legacy(ctx: SyncContext, n: int = 3) -> None: ...
@app.task
async def tidy() -> None: ...
@app.task
async def nightly(depth: int = 2) -> list[int]:
    return []


@app.task
async def paint(c: Color, mode: Literal["fast", "slow"], p: Point | None = None) -> Order | None:
    return None


@app.task
def loose(x, y=1):  # type: ignore[no-untyped-def]
    return x


@app.task
async def anyfirst(payload: Any, n: int = 1) -> str:
    return ""


@app.task
def objfirst(o: object, n: int) -> str:
    return ""


@app.task
def noargs_untyped():  # type: ignore[no-untyped-def]
    return 1


@app.task
async def returns_any(x: int) -> Any:
    return 1


@app.task
def sync_any(x: int) -> Any:
    return 1


class Jobs:
    @staticmethod
    @app.task
    async def stat(x: int) -> str:
        return ""


@app.task
async def kw(**fields: int) -> None: ...


async def main(conn: object, harness: Harness) -> None:
    r1 = await send.submit(to="x")
    assert_type(r1, Receipt[int])
    assert_type(await r1.result(), int)
    await send.submit("x")
    await send.submit("x", 2)
    await send.submit(to="x", copies=2)
    r2 = await send.options(run_in="10m", key="k").submit(to="x")
    assert_type(r2, Receipt[int])
    await send.options(run_in=timedelta(minutes=3), priority="HIGH").submit(to="x")
    await send.options(depends_on=[r1, r2, "job_x"], tags=["a"]).submit("x")
    await send.options(depends_on=Needs([r1], on="finished")).submit("x")
    await send.options(connection=conn).submit(to="x")
    urgent = send.options(queue="urgent", priority="HIGH")
    await urgent.submit(to="x")
    await urgent.options(key="k").submit(to="y")
    await report.submit(to="x", day=datetime.now(UTC))
    assert_type(await (await report.submit(to="x", day=datetime.now(UTC))).result(), str)
    await resize.submit("p", width=3)
    assert_type(await (await resize.submit("p", width=3)).result(), bytes)
    assert_type(await (await crunch.submit([{"a": 1}])).result(), Order)
    assert_type(await (await charge.submit(customer=3, amount=Decimal(1))).result(), UUID)
    await charge.submit(3, Decimal(1))
    await legacy.submit()
    await legacy.submit(n=3)
    await tidy.submit()
    await tidy.schedule(cron="0 9 * * *", tz="Europe/Berlin", key="tidy")
    await nightly.schedule(every="1h", overlap="skip", key="n")
    await nightly.bind(3).schedule(every="1h", key="n3")
    await send.bind(to="x").schedule(when="every weekday at 9am", key="s")
    await app.schedule(send.bind(to="x"), cron="0 9 * * *", max_runs=3)
    await app.schedule(nightly, cron="0 9 * * *")
    await app.schedule(tidy.bind(), after=r1)
    c = send.bind(to="x")
    assert_type(c, Call[int])
    await c.submit(run_in="10m", key="k")
    assert_type(await app.submit(c, run_in="10m"), Receipt[int])
    assert_type(await app.submit(nightly), Receipt[list[int]])
    assert_type(await app.submit_many([send.bind(to=t) for t in "abc"]), list[Receipt[int]])
    await app.submit_many((send.bind(t) for t in "abc"), queue="bulk", run_in=60)
    await app.submit("billing.charge", {"customer": 3}, run_in="1m")
    await app.submit(HttpTarget(url="https://example.com"), run_at=datetime.now(UTC))
    plan = GraphPlan()
    plan.add("a", send.bind(to="x")).add("b", nightly, depends_on=["a"], queue="q")
    await paint.submit(Color.RED, "fast", Point(1, 2))
    assert_type(await (await paint.submit(Color.RED, mode="slow")).result(), Order | None)
    await loose.submit(1, y=2)
    await loose.submit(x=1)
    await anyfirst.submit(payload={"a": 1})
    await anyfirst.submit({"a": 1}, n=3)
    await kw.submit(a=1, b=2)
    assert_type(await send(to="x"), int)
    assert_type(resize("p", width=1), bytes)
    harness.assert_submitted(send.bind(to="x"), run_in="10m")
    harness.assert_submitted(send)
    await app.edit(r1, timeout=None, queue="slow", args=send.bind(to="y"))


async def more() -> None:
    await objfirst.submit(o=3, n=3)
    await noargs_untyped.submit()
    await returns_any.submit(x=3)
    await sync_any.submit(x=3)
    await Jobs.stat.submit(x=3)
    assert_type(await (await Jobs.stat.submit(3)).result(), str)
    assert_type(await app.submit_many([send.bind("x"), tidy.bind()]), list[Receipt[int | None]])


async def in_a_graph(ctx: Context, sync_ctx: SyncContext) -> None:
    assert_type(await ctx.result_of(send), int)
    assert_type(await ctx.result_of(crunch, "rows"), Order)
    assert_type(sync_ctx.result_of(nightly), list[int])
    assert_type(sync_ctx.result_of(charge, node="pay"), UUID)


def blocking(conn: object) -> None:
    s = send.sync.submit(to="x")
    assert_type(s.result("5s"), int)
    send.options(run_in="10m").sync.submit(to="x")
    assert_type(app.sync.submit(send.bind(to="x"), connection=conn), SyncReceipt[int])
    tidy.bind().sync.schedule(every="1h", key="k")

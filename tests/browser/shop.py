"""The app behind the browser tests: a small shop with tasks that succeed, fail, take their time and log."""

import asyncio
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

from msgspec import Meta, Struct

import duetime

app = duetime.App()


@app.task(name="shop.ping")
async def ping() -> str:
    return "pong"


@app.task(name="shop.send_report")
async def send_report(ctx: duetime.Context, to: str, secret: str = "", fail: bool = False) -> dict[str, str]:
    log = ctx.logger
    log.info("writing to %s", to)
    if fail:
        log.error("the mail server said no")
        raise ConnectionError(f"mail to {to} was refused")
    return {"sent_to": to}


@app.task(name="shop.count_to")
async def count_to(number: int) -> int:
    return number


@dataclass
class Address:
    street: str
    number: int


class Card(Struct, tag="card"):
    last4: Annotated[str, Meta(min_length=4, max_length=4)]


class Invoice(Struct, tag="invoice"):
    number: int


@app.task(name="shop.ship")
async def ship(
    to: Address,
    on: date,
    size: Literal["small", "large"],
    count: Annotated[int, Meta(ge=1, description="How many boxes.")] = 1,
    weight: float | None = None,
    gift: bool = False,
    labels: tuple[str, ...] = (),
    paid: Card | Invoice | None = None,
    stops: tuple[Address, ...] = (),
    back: Address | None = None,
) -> date:
    return on


@app.task(name="shop.charge")
async def charge(order: int) -> str:
    raise LookupError(f"order {order % 3} has no card")


@app.task(name="shop.rebuild")
async def rebuild(ctx: duetime.Context, steps: int = 40, pause: float = 0.1) -> int:
    for step in range(steps):
        ctx.progress(step / steps, f"shelf {step} of {steps}")
        ctx.logger.info("shelf %d", step)
        await asyncio.sleep(pause)
    return steps


@app.task(name="shop.shout")
async def shout(ctx: duetime.Context, text: str) -> str:
    ctx.logger.warning(text)
    raise ValueError(text)

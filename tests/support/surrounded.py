"""Middleware and tasks that child processes can import."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar

from duetime import BaseContext

seen: ContextVar[list[str]] = ContextVar("seen")


async def step(ctx: BaseContext) -> AsyncIterator[None]:
    await asyncio.sleep(0)
    seen.set([*seen.get([]), f"async {ctx.task}"])
    yield


def plain_step(ctx: BaseContext) -> Iterator[None]:
    seen.set([*seen.get([]), f"plain {ctx.task}"])
    yield


def named_step(name: object, ctx: BaseContext) -> Iterator[None]:
    seen.set([*seen.get([]), f"{name} {ctx.task}"])
    yield


class Step:
    def __init__(self, name: object) -> None:
        self.name = name

    def around(self, ctx: BaseContext) -> Iterator[None]:
        return (yield from named_step(self.name, ctx))

    @classmethod
    def of_class(cls, ctx: BaseContext) -> Iterator[None]:
        yield from named_step("class", ctx)

    def task(self) -> None: ...


def look(fails: bool = False) -> list[str]:
    if fails:
        raise LookupError("no such card")
    return seen.get([])


async def async_look() -> list[str]:
    await asyncio.sleep(0)
    return look()

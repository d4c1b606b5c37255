"""A shop on FastAPI, SQLAlchemy and one PostgreSQL. Its process also fires schedules and runs tasks.

pip install "duetime[fastapi]" "sqlalchemy[asyncio]" uvicorn
export DUETIME_DATABASE_URL=postgresql://localhost/shop
duetime migrate
uvicorn main:api
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import duetime
from duetime.integrations.fastapi import lifespan

jobs = duetime.App()
engine = create_async_engine(os.environ["DUETIME_DATABASE_URL"].replace("postgresql:", "postgresql+asyncpg:", 1))
sessions = async_sessionmaker(engine, expire_on_commit=False)


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    confirmations: Mapped[int] = mapped_column(default=0)


@jobs.task
async def confirm(ctx: duetime.Context, order_id: int) -> None:
    async with sessions.begin() as session:
        order = await session.get_one(Order, order_id)
        order.confirmations += 1
        await session.flush()
        await ctx.complete(session)  # the effect and the end of the run are one commit


@asynccontextmanager
async def database(_: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield
    await engine.dispose()


api = FastAPI(lifespan=lifespan(jobs, around=database))


@api.post("/orders", status_code=201)
async def create_order(email: str) -> dict[str, int]:
    async with sessions.begin() as session:
        order = Order(email=email)
        session.add(order)
        await session.flush()
        await confirm.options(connection=session).submit(order.id)  # stored if, and only if, the order is
        if "@" not in email:
            raise HTTPException(422, "not an address")
    return {"id": order.id}


@api.get("/orders/{order_id}")
async def read_order(order_id: int) -> dict[str, int | str]:
    async with AsyncSession(engine) as session:
        order = await session.get(Order, order_id)
    if order is None:
        raise HTTPException(404)
    return {"id": order.id, "email": order.email, "confirmations": order.confirmations}

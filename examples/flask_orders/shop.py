"""A shop on Flask, SQLAlchemy and one PostgreSQL. Each process of gunicorn also fires schedules and runs tasks.

pip install "duetime[flask]" sqlalchemy "psycopg[binary]" gunicorn
export DUETIME_DATABASE_URL=postgresql://localhost/shop
duetime migrate
gunicorn --workers 2 "shop:create_app()"       # gunicorn.conf.py starts the app in each process
flask --app shop duetime worker                # or: run the tasks in a process of their own
"""

import os

from flask import Flask, abort, current_app
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import duetime
from duetime.integrations.flask import Duetime

jobs = duetime.App()
extension = Duetime(jobs)


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    confirmed_by: Mapped[str | None]


def session() -> Session:
    return Session(current_app.extensions["engine"])


@jobs.task
def confirm(order_id: int) -> None:
    with session() as opened, opened.begin():  # tasks run in the context of the Flask application
        opened.get_one(Order, order_id).confirmed_by = current_app.config["SHOP"]


def create_app(database_url: str | None = None) -> Flask:
    app = Flask(__name__)
    url = database_url or os.environ["DUETIME_DATABASE_URL"]
    app.config |= {"SHOP": "the shop", "DUETIME_DATABASE_URL": url}
    extension.init_app(app)
    engine = app.extensions["engine"] = create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
    Base.metadata.create_all(engine)

    @app.post("/orders/<email>")
    def create_order(email: str) -> tuple[dict[str, int], int]:
        with session() as opened, opened.begin():
            order = Order(email=email)
            opened.add(order)
            opened.flush()
            confirm.options(connection=opened).sync.submit(order.id)  # stored if, and only if, the order is
            if "@" not in email:
                abort(422)
            return {"id": order.id}, 201

    @app.get("/orders/<int:order_id>")
    def read_order(order_id: int) -> dict[str, object]:
        with session() as opened:
            order = opened.get(Order, order_id) or abort(404)
            return {"id": order.id, "email": order.email, "confirmed_by": order.confirmed_by}

    return app

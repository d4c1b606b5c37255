"""A day at the shop, with either version: prints what the customers and the shop got.

cd before && PYTHONPATH=. python ../day.py     # beside the commands of its Procfile
"""

import json
import time

from shop import checkout
from shop.database import opened
from shop.housekeeping import expire_carts

TABLES = ("payments", "shipments", "mails", "thumbnails", "galleries", "rates", "reports", "carts")


def wait_for(table: str, rows: int) -> None:
    deadline = time.monotonic() + 60
    while len(contents(table)) < rows:
        if time.monotonic() > deadline:
            raise TimeoutError(table)
        time.sleep(0.1)


def contents(table: str) -> list[list[object]]:
    with opened() as connection:
        return sorted(list(row) for row in connection.execute(f"select * from {table}"))


def work() -> dict[str, object]:
    orders = [checkout.order(number, 100 + number, f"{number}@example.com") for number in (1, 2, 3)]
    gallery = checkout.upload(["front", "back", "side"])
    sizes = checkout.publish("front", [20, 40])
    results = {
        "orders": [checkout.outcome(order) for order in orders],
        "gallery": checkout.outcome(gallery),
        "sizes": sizes.get(timeout=60),
        "cancelled": checkout.outcome(checkout.cancel(3)),
        "report": checkout.outcome(checkout.close_of_day("2027-01-31")),
        "imported": checkout.outcome(checkout.load(5)),
    }
    expire_carts.delay(hours=24)
    wait_for("carts", 1)
    wait_for("rates", 2)
    return results | {table: contents(table) for table in TABLES}


if __name__ == "__main__":
    print(json.dumps(work()))

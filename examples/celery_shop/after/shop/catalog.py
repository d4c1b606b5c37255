import duetime

from shop.celery import app
from shop.database import opened

RATES = {"USD": 1.25, "CHF": 0.95}


@app.task(bind=True, autoretry_for=(ConnectionError,), retry_backoff=1, retry_jitter=False, max_retries=3)
def fetch_rates(self, currency):
    if currency == "USD" and self.request.retries == 0:
        raise ConnectionError("no route")
    with opened() as connection:
        connection.execute("insert or replace into rates values (?, ?)", (currency, RATES[currency]))


@app.task
def resize(picture, width):
    with opened() as connection:
        connection.execute("insert or ignore into thumbnails values (?, ?)", (picture, width))
    return f"{picture}@{width}"


@app.task
def build_gallery(thumbnails):
    with opened() as connection:
        connection.execute("insert into galleries values (?)", (len(thumbnails),))
    return sorted(thumbnails)


@app.task(bind=True, time_limit=600)
def import_catalog(self, rows):
    for row in range(rows):
        duetime.current_context().progress(row / rows, f"row {row}")
    return rows

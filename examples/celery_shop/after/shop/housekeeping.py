from duetime.celery import shared_task

from shop.database import opened


@shared_task
def daily_report(day=None):
    with opened() as connection:
        (turnover,) = connection.execute("select coalesce(sum(amount), 0) from payments").fetchone()
        connection.execute("insert or replace into reports values (coalesce(?, date()), ?)", (day, turnover))
    return turnover


@shared_task(ignore_result=True)
def expire_carts(hours):
    with opened() as connection:
        connection.execute("insert or replace into carts values (?, 1)", (hours,))

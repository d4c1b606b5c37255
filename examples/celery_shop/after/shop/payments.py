import logging

from duetime.celery import shared_task

from shop.celery import app
from shop.database import BankBusy, opened, pay

logger = logging.getLogger(__name__)


@app.task(bind=True, max_retries=5, rate_limit="100/m")
def charge(self, number, amount):
    try:
        pay(number, amount, attempt=self.request.retries + 1)
    except BankBusy as error:
        logger.warning("the bank is busy: %s", error)
        raise self.retry(exc=error, countdown=2**self.request.retries) from error
    return number


@app.task
def refund(number):
    with opened() as connection:
        connection.execute("delete from payments where number = ?", (number,))


@app.task
def ship(number, courier="bike"):
    with opened() as connection:
        connection.execute("insert or replace into shipments values (?, ?)", (number, courier))
    return f"order {number} by {courier}"


@shared_task(queue="mail")
def send_mail(subject, recipient):
    with opened() as connection:
        connection.execute("insert or ignore into mails values (?, ?)", (recipient, subject))

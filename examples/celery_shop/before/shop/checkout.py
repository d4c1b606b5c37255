"""What the web application calls."""

from celery import chain, chord, group
from celery.result import AsyncResult

from shop.catalog import build_gallery, fetch_rates, import_catalog, resize
from shop.housekeeping import daily_report
from shop.payments import charge, refund, send_mail, ship


def order(number, amount, recipient):
    """Charge, ship, then write to the customer. The id follows the last of the three."""
    steps = chain(charge.s(number, amount), ship.s(courier="van"), send_mail.s(recipient))
    return steps.apply_async().id


def cancel(number):
    return refund.apply_async((number,), countdown=1, expires=600, priority=9).id


def upload(pictures):
    return chord([resize.s(picture, 200) for picture in pictures])(build_gallery.s()).id


def publish(picture, widths):
    return group(resize.s(picture, width) for width in widths).apply_async()


def close_of_day(day):
    fetch_rates.delay("USD")
    fetch_rates.delay("CHF")
    return daily_report.apply_async(kwargs={"day": day}, task_id=f"report-{day}").id


def load(rows):
    return import_catalog.delay(rows).id


def outcome(id):
    return AsyncResult(id).get(timeout=60)

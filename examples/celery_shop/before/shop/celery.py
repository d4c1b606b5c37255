import os
from datetime import timedelta

from celery import Celery
from celery.schedules import crontab

app = Celery(
    "shop",
    broker=os.environ.get("BROKER_URL", "redis://localhost/0"),
    backend=os.environ.get("BROKER_URL", "redis://localhost/0"),
    include=["shop.payments", "shop.catalog", "shop.housekeeping"],
)
app.conf.update(
    timezone="Europe/Berlin",
    task_serializer="json",
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    task_routes={"shop.payments.send_mail": {"queue": "mail"}},
    beat_schedule={
        "rates": {"task": "shop.catalog.fetch_rates", "schedule": timedelta(minutes=10), "args": ("USD",)},
        "carts": {"task": "shop.housekeeping.expire_carts", "schedule": 3600.0, "kwargs": {"hours": 24}},
        "report": {
            "task": "shop.housekeeping.daily_report",
            "schedule": crontab(minute=30, hour=6, day_of_week="mon-fri"),
            "options": {"expires": 3600},
        },
    },
)

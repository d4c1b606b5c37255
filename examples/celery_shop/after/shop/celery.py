from datetime import timedelta

import duetime
from duetime.celery import Celery, crontab

jobs = duetime.App()
app = Celery("shop", jobs)
app.conf.update(
    timezone="Europe/Berlin",
    task_serializer="json",
    task_acks_late=True,
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
jobs.on_start(app.schedule_beat)
app.autodiscover_tasks(["shop.payments", "shop.catalog", "shop.housekeeping"], related_name=None)

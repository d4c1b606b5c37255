from duetime.integrations.django import app

from .models import Order


@app.task
def confirm(order_id: int) -> None:
    Order.objects.filter(pk=order_id).update(confirmed=True)


@app.task
def thank(order_id: int) -> None:
    Order.objects.filter(pk=order_id).update(thanked=True)

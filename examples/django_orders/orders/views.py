from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from .models import Order
from .tasks import confirm, thank


class NotAnAddress(Exception): ...


@csrf_exempt
@require_POST
def create_order(_: HttpRequest, email: str) -> HttpResponse:
    try:
        with transaction.atomic():
            order = Order.objects.create(email=email)
            # In the same transaction: the job is stored if, and only if, the order is.
            confirm.options(connection=connection).sync.submit(order.pk)
            # After the commit: simpler, but a process that dies in between submits nothing.
            transaction.on_commit(lambda: thank.sync.submit(order.pk))
            if "@" not in email:
                raise NotAnAddress
    except NotAnAddress:
        return HttpResponse(status=422)
    return JsonResponse({"id": order.pk}, status=201)


def read_order(_: HttpRequest, order_id: int) -> HttpResponse:
    order = get_object_or_404(Order, pk=order_id)
    return JsonResponse({"id": order.pk, "confirmed": order.confirmed, "thanked": order.thanked})

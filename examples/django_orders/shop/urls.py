from django.contrib import admin
from django.urls import path
from orders import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("orders/<str:email>", views.create_order),
    path("orders/<int:order_id>/", views.read_order),
]

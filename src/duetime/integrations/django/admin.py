"""A page in Django's admin that leads to the dashboard, and lists the project's tasks."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.template.response import TemplateResponse

from duetime.integrations.django import app
from duetime.integrations.django.models import Dashboard
from duetime.integrations.django.project_settings import dashboard_url


@admin.register(Dashboard)
class DashboardAdmin(admin.ModelAdmin):  # type: ignore[misc]
    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        page = {
            **self.admin_site.each_context(request),
            "title": "duetime",
            "url": dashboard_url(),
            "tasks": sorted(app.tasks),
        }
        return TemplateResponse(request, "admin/duetime/dashboard.html", page)

    def has_add_permission(self, request: Any) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False

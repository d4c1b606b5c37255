"""A model without a table: its permission says who sees the dashboard's page in Django's admin."""

from django.db import models


class Dashboard(models.Model):  # type: ignore[misc]
    class Meta:
        managed = False
        default_permissions = ("view",)
        verbose_name = verbose_name_plural = "dashboard"

from django.db import migrations, models


class Migration(migrations.Migration):  # type: ignore[misc]
    initial = True
    operations = [
        migrations.CreateModel(
            "Dashboard",
            [("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))],
            {
                "managed": False,
                "default_permissions": ("view",),
                "verbose_name": "dashboard",
                "verbose_name_plural": "dashboard",
            },
        )
    ]

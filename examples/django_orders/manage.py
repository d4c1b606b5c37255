"""A shop on Django and one PostgreSQL.

pip install "duetime[django]" "psycopg[binary]"
python manage.py migrate
python manage.py runserver
python manage.py duetime up            # beside it: creates its schema, serves the dashboard, runs the tasks
"""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)

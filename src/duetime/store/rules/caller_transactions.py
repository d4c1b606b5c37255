"""What may be done on a caller's connection, in every store."""

from duetime.errors import InvalidInput
from duetime.model.job import NewJob
from duetime.model.schedule import Once

_SHOWN = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}


def check_one_off(job: NewJob) -> Once:
    """The schedule of a job that can be part of a caller's transaction."""
    if not isinstance(job.schedule, Once) or job.key is not None or job.depends_on is not None:
        raise InvalidInput(
            "only one-off jobs without key= and depends_on= can be submitted inside a transaction",
            field="connection",
            remedy="omit connection=, or submit without cron=, every=, key= and depends_on=",
        )
    return job.schedule


def check_dialect(found: str, needed: str) -> None:
    if found != needed:
        raise InvalidInput(
            f"this is a connection to {_SHOWN.get(found, found)}, and the jobs are stored in {_SHOWN[needed]}",
            field="connection",
            remedy="let duetime use the same database (DUETIME_DATABASE_URL), or omit connection=",
        )

"""What notifications read, from the rows of either store."""

from datetime import timedelta

from duetime.model.alert import Alert, decode_rule
from duetime.model.failure import FailureClass
from duetime.model.job import decode_options
from duetime.model.notification import RunNews
from duetime.store.shared.job_rows import Fields


def news_of(row: Fields) -> RunNews:
    failure = row["failure"]
    return RunNews(
        id=row["id"],
        job_id=row["job_id"],
        task=row["task"],
        queue=row["queue"],
        attempt=row["attempt"],
        due_at=row["due_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        failure=None if failure is None else FailureClass(failure),
        error=row["error"],
        options=decode_options(row["options"]),
        first_started_at=row["first_started_at"] or row["started_at"],
    )


def is_slow(options: bytes | None, ran_for: timedelta) -> bool:
    warn_after = decode_options(options).warn_after
    return warn_after is not None and ran_for.total_seconds() >= warn_after


def alert_of(row: Fields) -> Alert:
    return Alert(
        row["tenant_id"],
        decode_rule(row["rule"]),
        row["open"],
        row["value"],
        row["wrong_since"],
        row["changed_at"],
        row["checked_at"],
        row["version"],
    )

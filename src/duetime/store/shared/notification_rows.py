"""What notifications read, made from the rows of any store."""

from datetime import timedelta

from duetime.model.alert import Alert, decode_rule
from duetime.model.failure import FailureClass
from duetime.model.job import decode_options
from duetime.model.notification import RunNews
from duetime.store.shared.job_rows import Fields


def news_of(row: Fields) -> RunNews:
    failure = row["failure"]
    return RunNews(
        row["id"],
        row["job_id"],
        row["task"],
        row["queue"],
        row["attempt"],
        row["due_at"],
        row["started_at"],
        row["finished_at"],
        None if failure is None else FailureClass(failure),
        row["error"],
        decode_options(row["options"]),
        row["first_started_at"] or row["started_at"],
    )


def is_slow(options: bytes | None, ran_for: timedelta) -> bool:
    warn_after = decode_options(options).warn_after
    return warn_after is not None and ran_for.total_seconds() >= warn_after


def alert_of(row: Fields) -> Alert:
    return Alert(
        row["tenant_id"],
        decode_rule(row["rule"]),
        bool(row["open"]),
        row["value"],
        row["wrong_since"],
        row["changed_at"],
        row["checked_at"],
        row["version"],
    )

"""What notifications read, from the rows of either store."""

from datetime import datetime, timedelta

import msgspec

from duetime.model.alert import Alert, decode_rule
from duetime.model.job import decode_options
from duetime.model.notification import Message, RunNews
from duetime.store.rules.job_rows import Fields, failure_of, from_row


def news_of(row: Fields) -> RunNews:
    first_started_at = row["first_started_at"] or row["started_at"]
    options = decode_options(row["options"])
    return from_row(RunNews, row, failure=failure_of(row), options=options, first_started_at=first_started_at)


def is_slow(options: bytes | None, ran_for: timedelta) -> bool:
    warn_after = decode_options(options).warn_after
    return warn_after is not None and ran_for.total_seconds() >= warn_after


def alert_of(row: Fields) -> Alert:
    pauses = _pauses.decode(row["pauses"] or b"{}")
    return from_row(Alert, row, rule=decode_rule(row["rule"]), pauses=pauses, message=message_of(row))


def message_of(row: Fields) -> Message | None:
    return None if row["message"] is None else _messages.decode(row["message"])


encode = msgspec.json.Encoder().encode
_pauses = msgspec.json.Decoder(dict[str, datetime])
_messages = msgspec.json.Decoder(Message)

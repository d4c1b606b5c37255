"""Which jobs a stream can carry: a decision about every option."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetime.model.carried import why_stored
from duetime.spec.derived import OPTIONS
from tests.unit.test_options import BESIDE, meaning, over_http, values_of

CARRIED = {
    "queue", "priority", "retries", "retry", "timeout", "expires_in", "warn_after", "name", "tags", "owner",
    "payload_ref", "retention", "archive_retention",
}  # fmt: skip
"""Options of a run in a stream. Every other option sends the run to the store: a new one too, until it is decided."""
SCHEDULED_BY = {"tz": "cron", "day_match": "cron", "concurrency": "concurrency_key", "rate": "rate_key"}
"""The options that stand for others, which need them."""


@pytest.mark.parametrize("name", OPTIONS)
@settings(max_examples=20)
@given(data=st.data())
def test_every_option_is_carried_or_needs_the_store(name: str, data: st.DataObject) -> None:
    asked: dict[str, Any] = {**BESIDE.get(name, {}), name: data.draw(values_of(name), name)}
    for job in (meaning(asked), over_http(asked)):
        reason = why_stored(job)
        if name in CARRIED or asked == {"delivery": "at_least_once"}:
            assert reason is None
        elif name == "when":
            assert reason in ("run_at", "cron")
        else:
            assert reason == SCHEDULED_BY.get(name, "every" if "every" in asked else name)


def test_a_stored_payload_needs_the_store_and_another_place_does_not() -> None:
    assert why_stored(meaning({"payload_ref": "s3://bucket/file"})) is None
    assert why_stored(meaning({"payload_ref": "pay_01k000000000000000000000000"})) == "payload_ref"


def test_a_nonce_is_no_key_of_the_caller() -> None:
    job = meaning({"idempotency_key": "mine"})
    assert why_stored(job) == "idempotency_key"
    assert why_stored(msgspec.structs.replace(job, by_nonce=True)) is None

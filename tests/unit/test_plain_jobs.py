"""Which jobs a stream can carry: those without an option that needs the store."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetime.model.carried import option_of_store, why_stored
from duetime.model.job import CARRIED_OPTIONS, Options
from duetime.spec.derived import OPTIONS
from tests.unit.test_options import BESIDE, meaning, over_http, values_of

OF_THE_MESSAGE = {"queue", "priority", "retries", "timeout"}
"""Options that a run in a stream has, but not as a field of `Options` with their name."""
SCHEDULED_BY = {"tz": "cron", "day_match": "cron", "concurrency": "concurrency_key", "rate": "rate_key"}
"""The options that stand for others, which need them."""


@pytest.mark.parametrize("name", OPTIONS)
@settings(max_examples=20)
@given(data=st.data())
def test_every_option_is_carried_or_sends_the_job_to_the_store(name: str, data: st.DataObject) -> None:
    asked: dict[str, Any] = {**BESIDE.get(name, {}), name: data.draw(values_of(name), name)}
    for job in (meaning(asked), over_http(asked)):
        reason = why_stored(job)
        if name in CARRIED_OPTIONS | OF_THE_MESSAGE or meaning(asked) == meaning({}):
            assert reason is None
        elif name == "when":
            assert reason in ("run_at", "cron")
        else:
            assert reason == SCHEDULED_BY.get(name, "every" if "every" in asked else name)


def test_an_option_that_is_not_declared_as_carried_sends_the_job_to_the_store() -> None:
    class NewerOptions(Options, frozen=True):
        gadget: str | None = None

    assert option_of_store(NewerOptions(name="n", gadget="g")) == "gadget"
    assert option_of_store(NewerOptions(name="n")) is None
    assert set(Options.__struct_fields__) >= CARRIED_OPTIONS


def test_a_stored_payload_needs_the_store_and_another_place_does_not() -> None:
    assert why_stored(meaning({"payload_ref": "s3://bucket/file"})) is None
    assert why_stored(meaning({"payload_ref": "pay_01k000000000000000000000000"})) == "payload_ref"


def test_a_nonce_is_no_key_of_the_caller() -> None:
    job = meaning({"idempotency_key": "mine"})
    assert why_stored(job) == "idempotency_key"
    assert why_stored(msgspec.structs.replace(job, by_nonce=True)) is None

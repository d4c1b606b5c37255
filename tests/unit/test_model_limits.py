"""Rates and limits as they are said."""

from datetime import timedelta

import pytest

from duetime.errors import InvalidInput
from duetime.model.limits import Rate, parse_rate
from duetime.spec.resolved import NOTHING_GIVEN, resolve


@pytest.mark.parametrize(("text", "count", "seconds"), [
    ("100/m", 100, 60), ("5/s", 5, 1), ("10/30s", 10, 30), ("1000/h", 1000, 3600), ("1/2d", 1, 172800),
])  # fmt: skip
def test_rates_are_read_and_written(text: str, count: int, seconds: int) -> None:
    assert parse_rate(text) == Rate(count, timedelta(seconds=seconds))
    assert parse_rate(str(parse_rate(text))) == parse_rate(text)


@pytest.mark.parametrize("text", ["", "100", "0/m", "100/x", "-1/s", "1/0s", "1.5/s", "1/8d", "100/ m", "99999999/s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_rate(text)
    assert refused.value.field == "rate"


def test_keys_and_what_goes_with_them() -> None:
    options = resolve(NOTHING_GIVEN, {"concurrency_key": "c", "rate_key": "r", "rate": "60/60s"}).options
    assert (options.concurrency_key, options.concurrency, options.rate_key, options.rate) == ("c", 1, "r", "60/m")
    assert options.is_keyed


@pytest.mark.parametrize(("given", "field"), [
    ({"concurrency": 2}, "concurrency"),
    ({"concurrency_key": "k", "concurrency": 0}, "concurrency"),
    ({"concurrency_key": "k", "concurrency": True}, "concurrency"),
    ({"rate": "1/s"}, "rate_key"),
    ({"rate_key": "k"}, "rate"),
    ({"rate_key": "k", "rate": 5}, "rate"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused(given: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        resolve(NOTHING_GIVEN, given)
    assert refused.value.field == field

"""Whatever is written for a schedule, a length, an id or a key: it is read, or refused by an error that tells why."""

import contextlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.cli.crontab_lines import read_crontab
from duetime.duration import parse_duration
from duetime.errors import InvalidInput
from duetime.ids import parse, show
from duetime.model.key_text import looks_like_key, new_key_text
from duetime.model.name import check_name
from duetime.model.schedule import (
    Every,
    Once,
    Schedule,
    decode_schedule,
    encode_schedule,
    make_schedule,
    parse_schedule,
)
from duetime.model.schedule.exclusion import make_exclusion
from duetime.model.schedule.moment import check_moment
from tests.fuzz.strategies import NOW, fuzzed, lengths, moments, texts, values, zones


def read(make: Callable[[], Any]) -> Any:
    """What comes of it; None when it was refused, as it should be."""
    with contextlib.suppress(InvalidInput):
        return make()
    return None


def keeps(schedule: Schedule) -> None:
    """What was accepted can be stored, read back, and told the next fire of."""
    assert decode_schedule(encode_schedule(schedule)) == schedule
    if isinstance(schedule, Once):
        return
    if isinstance(schedule, Every):
        schedule = schedule.anchored(NOW)  # as it is when it is stored
    following = schedule.next_after(NOW)
    assert following is None or following > NOW
    latest = schedule.latest_until(NOW)
    assert latest is None or latest <= NOW


@fuzzed
@given(texts, zones)
def test_a_schedule_in_words(text: str, zone: str) -> None:
    schedule = read(lambda: parse_schedule(text, zone=zone, now=NOW))
    if schedule is not None:
        keeps(schedule)


@fuzzed
@given(st.sampled_from(["run_at", "run_in", "cron", "every", "when"]), texts, zones | st.none(), moments, moments)
def test_a_schedule_option_by_option(kind: str, text: str, zone: str | None, start: Any, end: Any) -> None:
    schedule = read(lambda: make_schedule(**{kind: text}, tz=zone, start_at=start, end_at=end, now=NOW))  # type: ignore[arg-type]
    if schedule is not None:
        keeps(schedule)


@fuzzed
@given(st.sampled_from(["run_in", "every"]), lengths)
def test_lengths_of_time(kind: str, length: Any) -> None:
    schedule = read(lambda: make_schedule(**{kind: length}, now=NOW))
    if schedule is not None:
        keeps(schedule)
    with contextlib.suppress(ValueError):  # which its callers turn into an error of their own
        parse_duration(length)


@fuzzed
@given(moments)
def test_moments(moment: Any) -> None:
    found = read(lambda: check_moment(moment, "run_at"))
    assert found is None or (isinstance(found, datetime) and found.tzinfo is not None)


@fuzzed
@given(values)
def test_exclusions(given_: Any) -> None:
    options = given_ if isinstance(given_, dict) else {"dates": given_}
    if all(isinstance(name, str) for name in options):
        read(lambda: make_schedule(cron="0 9 * * *", exclude=options))
    read(lambda: make_exclusion(dates=given_ if isinstance(given_, list) else [given_]))


@fuzzed
@given(st.sampled_from(["job", "run", "wrk", "key", "pay"]), texts | st.text(alphabet="jobrun_01kz", max_size=32))
def test_ids(kind: Any, text: str) -> None:
    found = read(lambda: parse(kind, text))
    assert found is None or show(kind, found) == text


@fuzzed
@given(texts, st.integers(0, 60), st.characters())
def test_api_keys(text: str, place: int, other: str) -> None:
    assert not looks_like_key(text)
    key = new_key_text().text
    spoilt = key[:place] + other + key[place + 1 :]
    assert looks_like_key(spoilt) == (spoilt == key)


@fuzzed
@given(values)
def test_names(name: Any) -> None:
    with contextlib.suppress(InvalidInput):
        check_name(name, "name")


@fuzzed
@given(st.lists(texts | st.tuples(texts, texts).map(" ".join), max_size=8), st.booleans())
def test_crontabs(lines: list[str], system: bool) -> None:
    entries, left_out = read_crontab(lines, system=system)
    assert {entry.line for entry in entries}.isdisjoint(item.line for item in left_out)
    for entry in entries:
        assert entry.command or entry.stdin is not None  # a line may begin with what the command reads
        assert entry.key.startswith("crontab:")
        schedule = read(lambda cron=entry.cron, tz=entry.tz: make_schedule(cron=cron, tz=tz))  # type: ignore[misc]
        if schedule is not None:
            keeps(schedule)


def test_half_a_character_is_refused_and_not_stored() -> None:
    with pytest.raises(InvalidInput):
        parse_schedule("every day at \ud800", now=NOW)

"""Durations: what people write, what is refused and why, and that writing and reading are inverse."""

import contextlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.duration import LONGEST, format_duration, parse_duration
from duetime.errors import InvalidInput
from duetime.model.schedule import parts

within_bounds = st.timedeltas(min_value=timedelta(0), max_value=LONGEST)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("2h", timedelta(hours=2)),
        ("500ms", timedelta(milliseconds=500)),
        ("1h30m", timedelta(minutes=90)),
        ("1m5ms", timedelta(seconds=60, milliseconds=5)),
        ("30d", timedelta(days=30)),
        ("2w", timedelta(days=14)),
        ("1.5h", timedelta(minutes=90)),
        ("0.1s", timedelta(milliseconds=100)),
        (" 1h  30 m ", timedelta(minutes=90)),
        ("90", timedelta(seconds=90)),
        ("0", timedelta(0)),
        ("0.25", timedelta(milliseconds=250)),
        (90, timedelta(seconds=90)),
        (0, timedelta(0)),
        (1.5, timedelta(seconds=1.5)),
        (timedelta(hours=1), timedelta(hours=1)),
        ("PT15M", timedelta(minutes=15)),
        ("P1DT2H", timedelta(hours=26)),
        ("PT1H30M5.5S", timedelta(hours=1, minutes=30, seconds=5.5)),
        ("P2W", timedelta(days=14)),
        ("PT0S", timedelta(0)),
        ("36525d", LONGEST),
    ],
)
def test_what_people_write_is_read(text: str | float | timedelta, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "h",
            "s5",
            "5 parsecs",
            "3 months",
            "1d2",
            "1h2h",
            "30m1h",
            "5mss",
            "1e3",
            "1.s",
            ".5s",
            "1_0s",
        ),
        *("15M", "2H", "P", "PT", "P1DT", "P1D2H", "PT1D", "pt15m", "P1", "٣s", "nan", "inf", "+5s", "1:30"),
        "9" * 101,
        "1w" + " " * 90 + "x",  # must not send the pattern exploring
    ],
)
def test_what_is_no_duration_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration: write it like \"90s\""):
        parse_duration(text)


@pytest.mark.parametrize("other", [None, True, False, [1], b"5s"])
def test_other_types_are_refused(other: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(other)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["P1M", "P1Y", "P1Y2M3DT4H", "P1MT1M", "P0.5Y"])
def test_calendar_units_are_refused_with_the_reason(text: str) -> None:
    with pytest.raises(ValueError, match="months or years, which have no fixed length"):
        parse_duration(text)


@pytest.mark.parametrize("endless", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_are_refused(endless: float) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(endless)


@pytest.mark.parametrize(
    "far",
    [-1, -0.001, -(10**400), 10**400, 1e300, "36525d1ms", "9" * 90, "P99999W", timedelta(microseconds=-1)],
)
def test_lengths_out_of_bounds_are_refused(far: str | float | timedelta) -> None:
    with pytest.raises(ValueError, match="zero to 100 years"):
        parse_duration(far)


@pytest.mark.parametrize("text", ["-1s", "-5", "-PT5M"])
def test_a_negative_text_is_refused_as_such(text: str) -> None:
    with pytest.raises(ValueError, match="is negative"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(milliseconds=500), "500ms"),
        (timedelta(seconds=1.5), "1s500ms"),
        (timedelta(microseconds=1), "0.001ms"),
        (timedelta(microseconds=1200), "1.2ms"),
        (timedelta(days=30), "30d"),
        (timedelta(days=400, hours=1), "400d1h"),
    ],
)
def test_a_duration_is_written_short(duration: timedelta, text: str) -> None:
    assert format_duration(duration) == text


@pytest.mark.parametrize("far", [timedelta(microseconds=-1), LONGEST + timedelta(microseconds=1)])
def test_lengths_out_of_bounds_are_not_written(far: timedelta) -> None:
    with pytest.raises(ValueError, match="zero to 100 years"):
        format_duration(far)


@given(within_bounds)
def test_what_is_written_reads_back_unchanged(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused_with_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert timedelta(0) <= parse_duration(text) <= LONGEST


def test_only_short_delays_are_remembered() -> None:
    """A text may be as long as a request; a thousand of them must not stay in memory."""
    known = parts._known_delay
    known.cache_clear()
    for run_in, zone in (("1d" + " " * 1000, "Europe/Berlin"), ("1d", "Z" * 1000)):
        assert parts.counts_in_calendar(run_in, zone)
        assert known.cache_info().currsize == 0
    assert parts.counts_in_calendar("1d", "Europe/Berlin") and not parts.counts_in_calendar(90, "UTC")
    assert known.cache_info().currsize == 2
    with pytest.raises(InvalidInput):
        parts.counts_in_calendar([1], "UTC")  # type: ignore[arg-type]

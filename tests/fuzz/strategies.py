"""Input that is wrong in the ways people and broken programs make it wrong: nearly right, too long, not text at all."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st

Test = TypeVar("Test", bound=Callable[..., Any])

EXAMPLES = int(os.environ.get("DUETIME_TEST_FUZZ", "25"))
"""How many examples each test draws; `python -m chaos fuzz` asks for many more."""
SEED = os.environ.get("DUETIME_TEST_FUZZ_SEED")
"""What they are drawn by. Without one, a short run draws the same each time, and a long one others each time."""


def fuzzed(test: Test) -> Test:
    drawn = settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=SEED is None and EXAMPLES < 1000,
        database=None,  # else what failed before comes first, whatever the seed
        suppress_health_check=list(HealthCheck),
    )(test)
    return drawn if SEED is None else seed(int(SEED))(drawn)


NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def _split(text: str) -> list[str]:
    return text.split()


_WORDS = _split(
    "every day weekday at 9am noon midnight on the 1st last friday of each month hour minutes 2 15 90 seconds in"
    " tomorrow next between and until from morning evening week twice other second half past quarter"
    " to 29 feb 25:99 00:00"
)
_CRON = ["", *_split("* */5 0 59 60 1-5 5-1 1,2,3 L W 15W LW # MON#2 SUN JAN ? @daily @reboot")]
_TIMES = _split(
    "PT5M P1M P1Y2M3DT4H5M6S R/PT1H R5/2026-01-01T00:00:00Z/P1D 1h30m 1e9s -5s 0s NaN ∞ 1h 2026-03-29T02:30:00"
    " 2026-13-45 9999-12-31T23:59:59Z 0001-01-01T00:00:00+14:00"
)
_ZONES = _split("UTC Europe/Berlin America/St_Johns Asia/Kolkata Pacific/Apia Mars/Base ../etc")

nearly = st.one_of(
    st.lists(st.sampled_from(_WORDS), max_size=9).map(" ".join),
    st.lists(st.sampled_from(_CRON), min_size=1, max_size=8).map(" ".join),
    st.sampled_from(_TIMES),
    st.tuples(st.sampled_from(_TIMES), st.text(max_size=5)).map("".join),
)
texts = st.one_of(nearly, st.text(max_size=60), st.text(alphabet="0123456789*/,-LW#?@ :.PTRDHMS", max_size=40))
zones = st.one_of(st.sampled_from(_ZONES), st.text(max_size=20))
lengths = st.one_of(
    texts, st.floats(), st.integers(), st.timedeltas(), st.just(timedelta.max), st.just(timedelta.min), st.none()
)
moments = st.one_of(texts, st.datetimes(), st.datetimes(timezones=st.just(UTC)), st.none(), st.integers())
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)

"""Spreading a herd."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from duetime.ids import new_ids
from duetime.model.firing import jittered

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def test_a_herd_is_spread_evenly() -> None:
    """10,000 jobs at 09:00 with 30 seconds: ids that were drawn together must not start together."""
    starts = [jittered(job_id, NINE, 30) for job_id in new_ids(10_000)]
    seconds = Counter(int((start - NINE).total_seconds()) for start in starts)
    assert set(seconds) == set(range(30))
    assert max(seconds.values()) < 2 * 10_000 / 30


@given(st.uuids(), st.floats(0, 86_400))
def test_never_before_its_time(job_id: UUID, most: float) -> None:
    start = jittered(job_id, NINE, most)
    assert NINE <= start <= NINE + timedelta(seconds=most)
    assert jittered(job_id, NINE, most) == start


def test_the_same_on_every_machine() -> None:
    job_id = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
    assert jittered(job_id, NINE, 30) == datetime(2026, 3, 2, 9, 0, 18, 939_510, tzinfo=UTC)

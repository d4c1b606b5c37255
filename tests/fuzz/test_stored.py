"""What another release, or a stranger, has written into the database: it is left alone with a reason, or fired."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from duetime.model.firing import DueJob, Fire, plan_fire
from duetime.model.job import Options, encode_options
from duetime.model.lane import LaneKey
from duetime.model.retry import RetryPolicy
from duetime.model.schedule import Cron, Every, encode_schedule
from tests.fuzz.strategies import NOW, fuzzed, values

EVERY = Every(timedelta(seconds=90), anchor=NOW)
SCHEDULES = [
    json.loads(encode_schedule(schedule)) for schedule in (Cron("*/5 9-17 * * MON-FRI", zone="Europe/Berlin"), EVERY)
]
OPTIONS = json.loads(encode_options(Options(tags=("a",), jitter=5.0, retry=RetryPolicy(retries=7))) or b"{}")


def spoilt(body: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """A stored object with a field that has another value, is gone, or is new."""
    names = st.sampled_from([*body, "of_the_next_release"])
    changed = st.tuples(names, values).map(lambda change: {**body, change[0]: change[1]})
    gone = st.sampled_from([*body]).map(lambda name: {key: value for key, value in body.items() if key != name})
    written = (changed | gone).map(lambda value: json.dumps(value, ensure_ascii=True).encode())
    return written | st.binary(max_size=40)


@fuzzed
@given(st.sampled_from(SCHEDULES).flatmap(spoilt), st.none() | spoilt(OPTIONS), st.integers(-5, 99))
def test_a_job_that_cannot_be_read_says_why(schedule: bytes, options: bytes | None, tier: int) -> None:
    due = DueJob(UUID(int=7), LaneKey(1, "default", tier, "work"), schedule, NOW, options)
    planned = plan_fire(due, NOW)
    if not isinstance(planned, Fire):
        assert planned.problem

"""How many workers are needed: exact for a few cases, and never too few in a simulation."""

from datetime import timedelta
from heapq import heappop, heappush

from hypothesis import given
from hypothesis import strategies as st

from duetime.model.demand import WorkerShape, limited, peak_ahead, workers_now
from duetime.model.limits import QueueLimits, Rate

SHAPE = WorkerShape(slots=10, duration=1.0, lag=10.0)


def test_nothing_needs_no_worker() -> None:
    assert workers_now(0, 0.0, SHAPE) == 0
    assert peak_ahead(0, [0] * 60, 1.0, SHAPE) == (0, None)


def test_one_run_needs_one_worker() -> None:
    assert workers_now(1, 0.0, SHAPE) == 1
    assert peak_ahead(0, [0, 0, 1], 1.0, SHAPE) == (1, 2)


def test_short_runs_need_the_slots_that_start_them_in_time() -> None:
    assert workers_now(1100, 0.0, SHAPE) == 10, "a worker starts 110 runs of a second within ten seconds"
    assert workers_now(1101, 0.0, SHAPE) == 11


def test_long_runs_need_a_slot_each() -> None:
    hours = WorkerShape(slots=10, duration=36000.0, lag=10.0)
    assert workers_now(100, 0.0, hours) == 10
    assert peak_ahead(50, [0, 50] + [0] * 600, 1.0, hours).workers == 10, "what runs then still runs"


def test_a_steady_flow_needs_what_it_occupies() -> None:
    assert workers_now(100, 100.0, SHAPE) == 9, "for a minute, and a lag of ten seconds is allowed"
    assert workers_now(0, 0.1, SHAPE) == 1
    assert peak_ahead(0, [100] * 600, 1.0, SHAPE).workers == 10


def test_a_herd_is_needed_for_from_its_moment_on() -> None:
    herd = [0.0] * 300
    herd[120] = 100_000
    assert peak_ahead(0, herd, 1.0, SHAPE) == (910, 120)
    by_rate = WorkerShape(slots=1000, duration=0.001, lag=2.0, rate=10_000)
    assert peak_ahead(0, herd, 1.0, by_rate) == (5, 120)


def test_limits_bound_what_can_be_used() -> None:
    assert limited(50, SHAPE, QueueLimits(running=25), None) == 3
    assert limited(50, SHAPE, QueueLimits(rate=Rate(300, timedelta(minutes=1))), None) == 1
    assert limited(50, SHAPE, QueueLimits(), 40) == 4
    assert limited(0, SHAPE, QueueLimits(running=25), None) == 0


@given(
    st.lists(st.integers(0, 80), min_size=1, max_size=40),
    st.integers(0, 60),
    st.integers(1, 8),
    st.sampled_from([0.05, 0.5, 2.0, 7.0, 100.0]),
    st.sampled_from([1.0, 3.0, 10.0]),
)
def test_as_many_workers_start_every_run_in_time(
    due: list[int], live: int, slots: int, duration: float, lag: float
) -> None:
    """Runs that all take the average time start within the target lag, give or take one round of slots."""
    shape = WorkerShape(slots, duration, lag)
    workers = peak_ahead(live, due, 1.0, shape).workers
    waiting = [0.0] * live + [float(second) for second, count in enumerate(due) for _ in range(count)]
    free = [0.0] * (workers * slots)
    for moment in waiting:
        start = max(moment, heappop(free))
        assert start - moment <= lag + duration + 1e-6
        heappush(free, start + duration)
    assert workers == 0 if not waiting else workers > 0

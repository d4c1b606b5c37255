"""The planner: which lanes it serves, and what it deals out of a look."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from duetime.clock import monotonic
from duetime.model.lane import Lane, LaneKey, Look, Sight, Tier, Trial
from duetime.model.planner import Planner
from duetime.model.suspicion import IDLE_WORKER_TIMEOUT, LostCount, Suspicion, TrialRoom

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
PLACES = {"work": 0, "think": 1, "duetime.http": 0}


def lane(lane_id: int, tenant: int = 1, queue: str = "default", task: str = "work", trial: Trial = Trial.NONE) -> Lane:
    return Lane(lane_id, LaneKey(tenant, queue, Tier.MEDIUM, task, trial))


def look(waiting: dict[int, int], *, depth: int = 100, waited: float = 1.0) -> Look:
    """So many runs of each lane, ready for so many seconds."""
    sights = []
    for lane_id, count in waiting.items():
        ids = tuple(UUID(int=lane_id * 1000 + number) for number in range(min(depth, count)))
        sights.append(Sight(lane_id, (NOW - timedelta(seconds=waited),) * len(ids), ids))
    return Look(NOW, tuple(sights), depth)


def planner(*lanes: Lane, **options: object) -> Planner:
    made = Planner(PLACES, **options)  # type: ignore[arg-type]
    made.learn_lanes(lanes)
    return made


def planned(made: Planner, found: Look, room: TrialRoom | None = None, free: int = 10) -> dict[int, int]:
    made.plan(found, room or TrialRoom())
    return dict(made.deal([free, free]))


def test_it_serves_lanes_of_its_tasks_queues_and_tenant() -> None:
    lanes = [lane(1), lane(2, task="else"), lane(3, queue="slow"), lane(4, tenant=2), lane(5, task="duetime.http/host")]
    assert list(planner(*lanes).lanes) == [1, 3, 4, 5]
    assert list(planner(*lanes, queues=["slow"]).lanes) == [3]
    assert list(planner(*lanes, tenant_id=1).lanes) == [1, 3, 5]


def test_it_says_whether_it_serves_a_lane_that_woke() -> None:
    made = planner()
    assert not made.learn_lanes([lane(1, task="else")])
    assert made.learn_lanes([lane(2)])
    assert not made.learn_lanes([], asleep=[2, 7])
    assert not made.lanes


def test_a_lane_that_fell_asleep_since_the_look_is_passed_over() -> None:
    made = planner(lane(1), lane(2), lane(3, trial=Trial.ALONE))
    made.learn_lanes([], asleep=[1, 3])
    found = look({1: 5, 2: 5, 3: 5}, waited=IDLE_WORKER_TIMEOUT + 1)
    assert planned(made, found) == {2: 5}
    assert not made.plan_alone(found, idle=True)
    assert [sight.lane_id for group in made.by_trust(found) for sight in group.sights] == [2]


def test_lanes_of_tasks_that_it_avoids_are_not_looked_at() -> None:
    avoided: frozenset[tuple[int, str]] = frozenset()
    made = planner(lane(1), lane(2, task="think"), avoids=lambda: avoided)
    assert list(made.lanes_to_look_at()) == [1, 2]
    avoided = frozenset({(1, "think")})
    assert made.avoids_others_now
    assert list(made.lanes_to_look_at()) == [1]
    assert not made.avoids_others_now


def test_weights_and_suspicion_hold_from_the_next_plan_on() -> None:
    made = planner(lane(1, tenant=1), lane(2, tenant=2))
    made.learn_rules({1: 300}, Suspicion())
    assert planned(made, look({1: 100, 2: 100}), free=40) == {1: 30, 2: 10}
    made.learn_rules({}, Suspicion.of([LostCount((1, "work"), 2, 0.0, of_job=False)]))
    assert planned(made, look({1: 100, 2: 100}), TrialRoom(suspects=3), free=40) == {1: 3, 2: 37}


def test_a_look_is_divided_by_trust() -> None:
    trials = (Trial.NONE, Trial.SUSPECT, Trial.PROBED, Trial.ALONE)
    made = planner(*(lane(number, trial=trial) for number, trial in enumerate(trials, 1)))
    found = made.by_trust(look({1: 1, 2: 1, 3: 1, 4: 1, 9: 1}))
    assert [[sight.lane_id for sight in group.sights] for group in found] == [[1], [2, 3], [4]]
    assert {(group.now, group.depth) for group in found} == {(NOW, 100)}


def test_without_room_for_trials_only_trusted_runs_are_dealt() -> None:
    made = planner(lane(1), lane(2, trial=Trial.SUSPECT), lane(3, trial=Trial.PROBED), lane(4, trial=Trial.ALONE))
    found = look({1: 2, 2: 2, 3: 2, 4: 2})
    assert planned(made, found) == {1: 2}
    assert planned(made, found, TrialRoom(suspects=1, unproven=1)) == {1: 2, 2: 1, 3: 1}


def test_a_run_that_is_tried_alone_waits_for_an_idle_worker_but_not_for_ever() -> None:
    made = planner(lane(1), lane(2, trial=Trial.ALONE))
    found = look({1: 5, 2: 5})
    made.plan(found, TrialRoom())
    assert not made.plan_alone(found, idle=False)
    assert dict(made.deal([10, 10])) == {1: 5}, "the plan stays"
    assert made.plan_alone(found, idle=True)
    assert dict(made.deal([10, 10])) == {2: 1}
    assert made.plan_alone(look({1: 5, 2: 5}, waited=IDLE_WORKER_TIMEOUT + 1), idle=False)
    assert dict(made.deal([10, 10])) == {2: 1}
    assert not made.plan_alone(look({1: 5}), idle=True)


def test_what_was_claimed_beside_the_look_is_not_tried_alone_again() -> None:
    made = planner(lane(2, trial=Trial.ALONE))
    found = look({2: 1})
    assert made.plan_alone(found, idle=True, claimed=found.sights[0].run_ids)
    assert made.deal([10, 10]) == []


def test_a_task_that_has_killed_often_is_left_alone_for_a_while() -> None:
    made = planner(lane(1, trial=Trial.ALONE))
    made.learn_rules({}, Suspicion.of([LostCount((1, "work"), 9, 0.0, of_job=True)]))
    assert not made.plan_alone(look({1: 1}, waited=600.0), idle=True)
    made.learn_rules({}, Suspicion({}, {(1, "work"): monotonic() - 1.0}))
    assert made.plan_alone(look({1: 1}, waited=600.0), idle=True)


def test_a_look_knows_when_its_first_run_is_ready() -> None:
    assert look({}).next_in is None
    assert look({1: 1, 2: 1}, waited=2.0).next_in == -2.0
    assert look({1: 1}, waited=-3.0).next_in == 3.0
